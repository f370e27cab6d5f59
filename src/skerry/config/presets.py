"""Presets: published systems as settings of an experiment, compared by name beside S2S and S2A.

A preset sets the fields that define the system and leaves the others (data, model, stepsize,
islands, period) to the experiment, so that all systems are compared on the same minibatches. The
presets of a method are declared in the file of the method (`skerry/methods/`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

from skerry.config.experiment import Experiment
from skerry.config.toml import toml_value
from skerry.errors import SkerryError
from skerry.plugins import registry

Settings = Mapping[str, Any]
"""Values by `section.field`."""
SettingsFunction = Callable[[Experiment], Settings]
"""The fields that a preset sets in an experiment."""

COMMON = "as it is commonly described; not compared with the paper or its code"
ABSTRACT = "read in the paper's abstract; the rest as it is commonly described"
CODE = "read in the authors' code, "
OTHERS = "read in code of others, "


@dataclass(frozen=True)
class Preset:
    """A published system: its rule, its source, and the fields that it sets."""

    name: str
    rule: str
    source: str
    known: str
    """How the rule was checked against its source."""
    differs: str
    """What differs from the source; empty if nothing does."""
    settings: SettingsFunction
    keeps: str = ""
    """The arrays that its method keeps, in words; empty without a method."""
    sends: str = ""
    """The vectors that its method sends, in words; empty without a method."""


NO_LINKS: Settings = {
    "network.gossip_steps": 0,
    "network.mix_with_server": True,
    "training.order": "adapt_then_mix",
}
TO_ALL: Settings = {"server.primitive": "s2a", "server.optimizer": "fedavg"}
PLAIN: Settings = {
    "server.selection": "uniform",
    "server.weights": "equal",
    "server.period_schedule": "constant",
}


def _sampling(sampled: int) -> Settings:
    return {"server.sampled": sampled, "server.sampled_schedule": "constant"}


def _all_devices(experiment: Experiment) -> Settings:
    return {**PLAIN, **_sampling(experiment.network.devices)}


def gossip_settings(experiment: Experiment) -> Settings:
    """Devices mix over links, as often as the experiment says, but at least once."""
    return {**NO_LINKS, "network.gossip_steps": max(1, experiment.network.gossip_steps)}


def method_settings(name: str, primitive: str) -> Settings:
    """A method and the primitive of its server, with plain averages."""
    return {
        "method.name": name,
        "training.weights": "equal",
        "server.primitive": primitive,
        "server.optimizer": "fedavg",
    }


def whole_period_settings(experiment: Experiment) -> Settings:
    """Every server round ends a whole period."""
    return {"server.period_schedule": "constant", "server.offset": experiment.server.period - 1}


def every_island_settings(experiment: Experiment) -> Settings:
    """Settings of presets that sample the same number of devices from every island."""
    islands = len(experiment.network.sizes)
    return {
        **_sampling(max(1, experiment.server.sampled // islands) * islands),
        "server.selection": "one_each",
        "server.weights": "equal",  # the rule itself weighs islands by their size
    }


def _fedavg(experiment: Experiment) -> Settings:
    return {**NO_LINKS, **PLAIN, **TO_ALL}


def _dsgd(experiment: Experiment) -> Settings:
    return {**gossip_settings(experiment), "server.primitive": "none"}


def _gossip_pga(experiment: Experiment) -> Settings:
    return {
        **gossip_settings(experiment),
        **_all_devices(experiment),
        **TO_ALL,
        "server.offset": experiment.server.period - 1,
    }


def hier_favg_settings(experiment: Experiment) -> Settings:
    """Islands average completely in every round, and the server averages all devices."""
    network = experiment.network
    if registry.is_given("topology", network.topology) or network.takes_from_file("components"):
        raise SkerryError(
            "preset 'hier_favg' needs complete islands, but the links are given by a graph. Leave "
            "it out, or name a topology."
        )
    return {
        **NO_LINKS,
        **_all_devices(experiment),
        **TO_ALL,
        "network.topology": "complete",
        "network.mixing": "metropolis",  # of a complete island: the island's average
        "network.gossip_steps": 1,
    }


def _one_each(experiment: Experiment) -> Settings:
    return {
        **gossip_settings(experiment),
        **PLAIN,  # the rule itself weighs islands by their size
        **TO_ALL,
        "server.selection": "one_each",
    }


def server_only_settings(name: str) -> SettingsFunction:
    """A method without links, whose server reaches all devices."""
    return lambda experiment: {**NO_LINKS, **PLAIN, **method_settings(name, "s2a")}


SYSTEMS = {
    row.name: row
    for row in (
        Preset(
            "fedavg",
            "No links. The sampled devices' average is sent to all devices, with equal weights.",
            "McMahan et al., AISTATS 2017",
            COMMON,
            "H rounds of local steps lie between two server rounds; see training.local_epochs.",
            _fedavg,
        ),
        Preset(
            "fedavg_data",
            "As fedavg; a sampled device counts by its number of samples.",
            "McMahan et al., AISTATS 2017",
            COMMON,
            "As fedavg.",
            lambda experiment: {**_fedavg(experiment), "server.weights": "data"},
        ),
        Preset(
            "local_sgd",
            "No links. The average of all devices is sent to all.",
            "Stich, ICLR 2019",
            COMMON,
            "",
            lambda experiment: {**_fedavg(experiment), **_all_devices(experiment)},
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
            lambda experiment: {**_dsgd(experiment), "training.order": "mix_then_adapt"},
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
            hier_favg_settings,
        ),
        Preset(
            "tt_hf",
            "The server samples one device of every island, weighs islands by their size, and "
            "sends the result to all devices; devices do not mix in that round.",
            "Lin et al., IEEE JSAC 2021",
            f"{CODE}shams-sam/TwoTimeScaleHybridLearning",
            "TT-HF chooses the number of gossip steps as it goes; here it is network.gossip_steps.",
            lambda experiment: {
                **_one_each(experiment),
                **_sampling(len(experiment.network.sizes)),
                "network.mix_with_server": False,
            },
        ),
        Preset(
            "hl_sgd",
            "Gossip steps after local steps; the server samples as many devices of every island, "
            "and sends the result to all devices.",
            "Guo et al., ICLR 2022",
            COMMON,
            "No code of the authors was found. K is rounded down to a multiple of the islands; the "
            "number of gossip steps is the experiment's, network.gossip_steps.",
            lambda experiment: {**_one_each(experiment), **every_island_settings(experiment)},
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
    )
}


@cache
def _all_presets() -> dict[str, Preset]:
    """All presets by name: the systems above, then those of methods."""
    found = dict(SYSTEMS)
    for method in registry.METHODS:
        of = registry.resolve("method", method)
        for name, settings, differs in of.presets:
            about = (of.rule, of.citation, of.checked, differs)
            found[name] = Preset(name, *about, settings, of.keeps, of.sends)
    return found


PRESETS = registry.LazyTable(_all_presets, lambda name: _all_presets()[name])


def with_preset(experiment: Experiment, name: str) -> Experiment:
    """The experiment with the settings of a preset, labelled with its name."""
    settings = {
        "method.name": "sgd",  # unless the preset is another
        **PRESETS[name].settings(experiment),
        "server.name": name,
    }
    return experiment.with_settings(*(f"{path}={toml_value(v)}" for path, v in settings.items()))


def fields_of_preset(experiment: Experiment) -> set[str]:
    """The fields whose values follow from the name of the experiment's preset."""
    preset = PRESETS.get(experiment.server.name)
    if preset is None:
        return set()
    try:
        settings = preset.settings(experiment)
    except SkerryError:
        return set()
    return {path for path, value in settings.items() if attrgetter(path)(experiment) == value}
