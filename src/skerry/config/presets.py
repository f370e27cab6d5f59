"""Systems of others that are a choice of our fields: one table, a row for each.

A preset sets the fields that make the system what it is, and leaves the rest (data, model,
stepsize, islands, period) to the experiment, so that it stands beside S2S and S2A on the same
minibatches. Each row says where the rule comes from, how well it is known, and what is different
here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from skerry.config.experiment import Experiment
from skerry.config.methods import ABSTRACT, CODE, COMMON, METHODS
from skerry.config.toml import toml_value
from skerry.errors import SkerryError
from skerry.plugins.registry import is_given

Settings = Mapping[str, Any]
"""`section.field` and its value."""


@dataclass(frozen=True)
class Preset:
    name: str
    rule: str
    source: str
    known: str
    """How well, and from where."""
    differs: str
    """What is different here; empty if nothing is."""
    settings: Callable[[Experiment], Settings]


NO_LINKS: Settings = {
    "network.gossip_steps": 0,
    "network.mix_with_server": True,
    "training.order": "adapt_then_mix",
}
PLAIN: Settings = {
    "server.selection": "uniform",
    "server.weights": "equal",
    "server.period_schedule": "constant",
}


def _sampling(sampled: int) -> Settings:
    return {"server.sampled": sampled, "server.sampled_schedule": "constant"}


def _everybody(experiment: Experiment) -> Settings:
    return {**PLAIN, **_sampling(experiment.network.devices)}


def _gossip(experiment: Experiment) -> Settings:
    """Links are used, as often as the experiment says."""
    return {
        "network.gossip_steps": max(1, experiment.network.gossip_steps),
        "network.mix_with_server": True,
        "training.order": "adapt_then_mix",
    }


def _method(name: str, primitive: str) -> Settings:
    """What makes a method, beside its links and whom its server meets."""
    return {
        "method.name": name,
        "training.weights": "equal",
        "server.primitive": primitive,
        "server.optimizer": "fedavg",
    }


def _after_whole_periods(experiment: Experiment) -> Settings:
    return {
        "server.period_schedule": "constant",
        "server.offset": experiment.server.period - 1,
    }


def _of_every_island(experiment: Experiment) -> Settings:
    islands = len(experiment.network.sizes)
    return {
        **_sampling(max(1, experiment.server.sampled // islands) * islands),
        "server.selection": "one_each",
        "server.weights": "equal",  # the rule itself weighs islands by their size
    }


def _fedavg(experiment: Experiment) -> Settings:
    return {**NO_LINKS, **PLAIN, "server.primitive": "s2a", "server.optimizer": "fedavg"}


def _fedavg_data(experiment: Experiment) -> Settings:
    return {**_fedavg(experiment), "server.weights": "data"}


def _local_sgd(experiment: Experiment) -> Settings:
    return {**_fedavg(experiment), **_everybody(experiment)}


def _dsgd(experiment: Experiment) -> Settings:
    return {**_gossip(experiment), "server.primitive": "none"}


def _d_psgd(experiment: Experiment) -> Settings:
    return {**_dsgd(experiment), "training.order": "mix_then_adapt"}


def _gossip_pga(experiment: Experiment) -> Settings:
    return {
        **_gossip(experiment),
        **_everybody(experiment),
        "server.primitive": "s2a",
        "server.optimizer": "fedavg",
        "server.offset": experiment.server.period - 1,
    }


def _hier_favg(experiment: Experiment) -> Settings:
    network = experiment.network
    if is_given("topology", network.topology) or network.takes_from_file("components"):
        raise SkerryError(
            "preset 'hier_favg' needs complete islands, but the links are given by a graph. Leave "
            "it out, or name a topology."
        )
    return {
        **_everybody(experiment),
        "network.topology": "complete",
        "network.mixing": "metropolis",  # of a complete island: the island's average
        "network.gossip_steps": 1,
        "network.mix_with_server": True,
        "training.order": "adapt_then_mix",
        "server.primitive": "s2a",
        "server.optimizer": "fedavg",
    }


def _one_each(experiment: Experiment, sampled: int) -> Settings:
    return {
        **_gossip(experiment),
        **_sampling(sampled),
        "server.primitive": "s2a",
        "server.selection": "one_each",
        "server.weights": "equal",  # the rule itself weighs islands by their size
        "server.period_schedule": "constant",
        "server.optimizer": "fedavg",
    }


def _tt_hf(experiment: Experiment) -> Settings:
    islands = len(experiment.network.sizes)
    return {
        **_one_each(experiment, islands),
        "network.mix_with_server": False,
    }


def _hl_sgd(experiment: Experiment) -> Settings:
    return {**_one_each(experiment, 1), **_of_every_island(experiment)}


def _tracking(primitive: str) -> Callable[[Experiment], Settings]:
    return lambda experiment: {
        **_gossip(experiment),
        **_method("gradient_tracking", primitive),
        "method.tracker": "s2s",
    }


def _carry(experiment: Experiment) -> Settings:
    return {**_gossip(experiment), **_method("carry", "s2s"), "network.mixing": "lazy"}


def _sd_gt(experiment: Experiment) -> Settings:
    return {
        **_gossip(experiment),
        **_method("sd_gt", "s2s"),
        **_of_every_island(experiment),
        **_after_whole_periods(experiment),
    }


def _mtgc(experiment: Experiment) -> Settings:
    return {
        **_hier_favg(experiment),
        **_method("mtgc", "s2a"),
        **_after_whole_periods(experiment),
    }


def _from_the_server(name: str) -> Callable[[Experiment], Settings]:
    return lambda experiment: {
        **NO_LINKS,
        **PLAIN,
        **_method(name, "s2a"),
        "server.period_schedule": "constant",
    }


def _with_method(
    name: str, differs: str, settings: Callable[[Experiment], Settings], method: str = ""
) -> Preset:
    row = METHODS[method or name]
    return Preset(name, row.rule, row.source, row.known, differs, settings)


PRESETS = {
    row.name: row
    for row in (
        Preset(
            "fedavg",
            "No links. The sampled devices' average goes to everybody, all count alike.",
            "McMahan et al., AISTATS 2017",
            COMMON,
            "It counts rounds, not epochs: H rounds of local steps lie between two server rounds.",
            _fedavg,
        ),
        Preset(
            "fedavg_data",
            "As fedavg; a sampled device counts by its number of samples.",
            "McMahan et al., AISTATS 2017",
            COMMON,
            "As fedavg.",
            _fedavg_data,
        ),
        Preset(
            "local_sgd",
            "No links. The average of all devices goes to everybody.",
            "Stich, ICLR 2019",
            COMMON,
            "",
            _local_sgd,
        ),
        Preset(
            "dsgd",
            "No server. W (X - eta G(X)): devices step, then mix.",
            "Koloskova et al., ICML 2020",
            COMMON,
            "Islands never learn of each other; it is the same run as the primitive none.",
            _dsgd,
        ),
        Preset(
            "d_psgd",
            "No server. W X - eta G(X): the gradient is taken before mixing, and added after it.",
            "Lian et al., NeurIPS 2017",
            COMMON,
            "As dsgd.",
            _d_psgd,
        ),
        Preset(
            "gossip_pga",
            "Devices mix in every round; every H rounds all of them take the average of all.",
            "Chen et al., ICML 2021",
            ABSTRACT,
            "Meant for one island. Here islands may be several, and the server alone joins them. "
            "Its server rounds end a period, where ours begin one: after the last round of the run "
            "its devices may have just agreed.",
            _gossip_pga,
        ),
        Preset(
            "hier_favg",
            "Islands average completely in every round (their edge server does); every H rounds "
            "all devices take the average of all.",
            "Liu et al., ICC 2020",
            f"{CODE}LuminLiu/HierFL",
            "Devices count alike and all take part; the authors sample by data. Messages to an "
            "edge server are counted as links.",
            _hier_favg,
        ),
        Preset(
            "tt_hf",
            "The server meets one device of every island, weighs islands by their size, and sends "
            "the result to everybody; devices do not mix in that round.",
            "Lin et al., IEEE JSAC 2021",
            f"{CODE}shams-sam/TwoTimeScaleHybridLearning",
            "TT-HF chooses the number of gossip steps as it goes; here it is network.gossip_steps.",
            _tt_hf,
        ),
        Preset(
            "hl_sgd",
            "Gossip steps after local steps; the server meets as many devices of every island, "
            "and sends the result to everybody.",
            "Guo et al., ICLR 2022",
            COMMON,
            "No code of the authors was found. K is rounded down to a multiple of the islands; the "
            "number of gossip steps is the experiment's, network.gossip_steps.",
            _hl_sgd,
        ),
        Preset(
            "modest",
            "FedAvg without a fixed server: a hash of device and round says who takes part.",
            "de Vos et al., MoDeST and Plexus",
            f"{CODE}sacs-epfl/plexus",
            "The draw is ours, nested in K as theirs is: it is the same run as fedavg. Who "
            "aggregates, and what that costs, is not simulated.",
            _fedavg,
        ),
        _with_method("gradient_tracking", "X goes by S2A, Y by S2S.", _tracking("s2a")),
        _with_method(
            "gradient_tracking_s2s", "X and Y go by S2S.", _tracking("s2s"), "gradient_tracking"
        ),
        _with_method(
            "sd_gt", "K is rounded down to a multiple of the islands; as many of each come.", _sd_gt
        ),
        _with_method("mtgc", "Messages to an edge server are counted as links.", _mtgc),
        _with_method(
            "scaffold",
            "All devices work between two server rounds, also those that are not sampled next.",
            _from_the_server("scaffold"),
        ),
        _with_method("fedvarp", "As scaffold.", _from_the_server("fedvarp")),
        _with_method(
            "mifa",
            "It does not wait until everybody came once. Else as scaffold.",
            _from_the_server("mifa"),
        ),
        _with_method("fedprox", "", _from_the_server("fedprox")),
        _with_method("carry", "Links are weighted by (I + W) / 2.", _carry),
    )
}


def with_preset(experiment: Experiment, name: str) -> Experiment:
    """The experiment as this system would run it, under its name."""
    settings = {
        "method.name": "sgd",  # unless the preset is another
        **PRESETS[name].settings(experiment),
        "server.name": name,
    }
    return experiment.with_settings(*(f"{path}={toml_value(v)}" for path, v in settings.items()))


def told_by_name(experiment: Experiment) -> set[str]:
    """The fields that the name of a preset tells: those that it sets, where they are as it sets
    them."""
    preset = PRESETS.get(experiment.server.name)
    if preset is None:
        return set()
    try:
        settings = preset.settings(experiment)
    except SkerryError:
        return set()
    return {path for path, value in settings.items() if _value(experiment, path) == value}


def _value(experiment: Experiment, path: str) -> Any:
    section, _, field = path.partition(".")
    return getattr(getattr(experiment, section), field)
