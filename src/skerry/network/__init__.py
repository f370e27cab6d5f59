"""Networks: graphs, mixing matrices, and the fleet that gives W(t) round by round."""
