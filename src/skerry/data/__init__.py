"""Data sets, how they are split over the devices, and the minibatches drawn from them."""
