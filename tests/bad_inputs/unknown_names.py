"""Fields, sections and functions that nobody knows."""

from bad_inputs.rows import sets, toml

SERVER = (
    "name, primitive, beta, sampled, period, offset, selection, sample_prob, weights, optimizer, "
    "momentum, learning_rate, dampening, second_momentum, smallest, compression, "
    "compression_share, compressed, error_feedback, beta_schedule, beta_end, "
    "sampled_schedule, sampled_end, period_schedule, "
    "period_end, switch_round, change_every, bias_cost, sampled_target, period_target, adapt_over, "
    "deadline, at_least, over_sample"
)

ROWS = [
    toml(
        "unknown field",
        "[server]\nsampeld = 3",
        f"unknown field 'server.sampeld'; did you mean 'sampled'? [server] takes: {SERVER}.",
    ),
    toml(
        "unknown section",
        "[netwrok]\ndevices = 3",
        "unknown field 'netwrok'; did you mean 'network'? An experiment takes: name, seed, "
        "rounds, stop, network, data, task, model, training, server, availability, method, "
        "evaluate, clock.",
    ),
    toml(
        "field of another section",
        "[network]\nsampled = 3",
        "unknown field 'network.sampled'; did you mean 'server.sampled'? [network] takes: "
        "devices, components, topology, degree, edge_prob, rewire_prob, dynamic, "
        "link_failure, gossip_steps, mix_with_server, mixing, compression, compression_share, "
        "consensus_stepsize.",
    ),
    toml(
        "field outside its section",
        "devices = 3",
        "unknown field 'devices'; did you mean 'network.devices'? An experiment takes: name, "
        "seed, rounds, stop, network, data, task, model, training, server, availability, method, "
        "evaluate, clock.",
    ),
    toml(
        "unknown field of a section with options",
        '[data]\ninterr = "iid"',
        "unknown field 'data.interr'; did you mean 'inter'? [data] takes: dataset, path, "
        "split, inter, intra, alpha, inter_alpha, shards, min_samples, sample_share, "
        "own_tests, scaling; dataset 'digits' "
        "adds none.",
    ),
    toml(
        "unknown option",
        '[data]\ndataset = "synthetic"\nsampels = 3',
        "unknown field 'data.sampels'; did you mean 'samples'? [data] takes: dataset, path, "
        "split, inter, intra, alpha, inter_alpha, shards, min_samples, sample_share, "
        "own_tests, scaling; dataset "
        "'synthetic' "
        "adds: samples, test_samples, features, classes, difficulty, data_seed.",
    ),
    toml(
        "unknown option of one's own",
        '[server]\nprimitive = "good_plugins:pull"\nstrength = 1\nstrenght = 2',
        f"unknown field 'server.strenght'; did you mean 'strength'? [server] takes: {SERVER}; "
        "primitive 'good_plugins:pull' adds: strength.",
    ),
    toml(
        "option of a function that is not named",
        "[server]\nstrength = 2",
        f"unknown field 'server.strength'. [server] takes: {SERVER}.",
    ),
    toml(
        "unknown topology",
        '[network]\ntopology = "rign"',
        "unknown topology 'rign'; did you mean 'ring'? Available: barabasi_albert, complete, "
        "erdos_renyi, grid, path, regular, ring, star, torus, watts_strogatz.",
    ),
    toml(
        "unknown mixing",
        '[network]\nmixing = "metro"',
        "unknown mixing 'metro'; did you mean 'metropolis'? Available: laplacian, lazy, "
        "max_degree, metropolis.",
    ),
    toml(
        "unknown data set",
        '[data]\ndataset = "minst"',
        "unknown dataset 'minst'; did you mean 'mnist'? Available: cifar10, cifar100, "
        "devices, digits, fashion_mnist, mnist, npz, speeches, synthetic, synthetic_regression, "
        "synthetic_tokens, vowels.",
    ),
    toml(
        "unknown split",
        '[data]\ninter = "noniid"',
        "unknown inter partition 'noniid'; did you mean 'non_iid'? Available: dirichlet, "
        "iid, non_iid.",
    ),
    toml(
        "unknown schedule",
        '[training]\nschedule = "cos"',
        "unknown schedule 'cos'; did you mean 'cosine'? Available: constant, cosine, "
        "inverse_sqrt, step.",
    ),
    toml(
        "unknown primitive",
        '[server]\nprimitive = "S3S"',
        "unknown primitive 'S3S'; did you mean 's2s'? Available: blend, none, s2a, s2s.",
    ),
    toml(
        "unknown optimizer",
        '[server]\noptimizer = "sgd"',
        "unknown server optimizer 'sgd'. Available: fedadam, fedavg, fedavgm, "
        "fedavgm_averages, fedyogi.",
    ),
    toml(
        "unknown measures",
        '[evaluate]\nmeasures = ["bais", "train_los"]',
        "unknown measure 'bais'; did you mean 'bias'? Available: average, average_accuracy,",
        "unknown measure 'train_los'; did you mean 'train_loss'? Available: average,",
    ),
    sets(
        "local optimizer that nobody knows",
        "training.optimizer=adm",
        "unknown local optimizer 'adm'; did you mean 'adam'? Available: adam, momentum, sgd.",
    ),
]
