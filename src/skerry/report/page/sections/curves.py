"""Over the rounds: learning curves, consensus beside its theory, and the price in messages."""

from skerry.config.experiment import Experiment
from skerry.config.measures import traits
from skerry.report.page.blocks import Block, Section, note, text, widget
from skerry.report.page.study import RATIOS, Study
from skerry.theory.ratios import expected_ratios, notes_on_rules


def learning_curves(study: Study) -> Section | None:
    if not study.measures:
        return None
    return Section(
        "curves",
        "Learning curves",
        [
            text(
                "Mean over seeds, with a band for the 95 % interval. Dotted lines are "
                "server rounds (D2S)."
            ),
            *_thinned(study),
            widget("curves"),
        ],
    )


def consensus(study: Study) -> Section | None:
    """Disagreement inside and across components, and the ratios that the theory gives exactly."""
    if "disagreement" not in study.measures:
        return None
    return Section(
        "consensus",
        "Disagreement and bias",
        [
            text(
                "Inside islands, mixing removes disagreement; across islands only the server can. "
                "S2S leaves the share δ = (n - K) / (n - 1) of it on average and does not move the "
                "global average; S2A leaves none and turns the share κ = δ / K of it into bias; "
                "blend(β) leaves (1 - β)² δ and turns β² κ."
            ),
            *_other_rules(study),
            widget(
                "consensus",
                ratios=RATIOS,
                theory=[_shares(study.experiment(group)) for group in study.grid.groups],
            ),
        ],
    )


def cost(study: Study) -> Section | None:
    """What was reached for how many messages."""
    messages = [name for name in study.measures if traits(name).is_count]
    others = [name for name in study.measures if name not in messages]
    if not messages or not others:
        return None
    return Section(
        "cost",
        "Accuracy against messages",
        [
            text(
                "The same curves, drawn over what they cost. A message carries one model over one "
                "link: up to the server, down from it, or between two devices (D2D)."
            ),
            widget("cost"),
        ],
    )


def _thinned(study: Study) -> list[Block]:
    if study.curves.thinned is None:
        return []
    shown, recorded = study.curves.thinned
    return [
        note(
            f"{shown} of {recorded:,} rounds are drawn, among them server rounds, each with the "
            f"round before it. All are in the records: skerry.load({str(study.path.parent)!r})"
        )
    ]


def _other_rules(study: Study) -> list[Block]:
    """What stands in the place of δ and κ where the server does not sample uniformly."""
    experiments = [study.experiment(group) for group in study.grid.groups]
    told = notes_on_rules(one for one in experiments if one.server.is_there)
    return [note(" ".join(["δ and κ are those of uniform sampling.", *told]))] if told else []


def _shares(experiment: Experiment) -> list[list[float] | None]:
    """For each of RATIOS, what is expected of disagreement inside islands and between them."""
    return [share and [share.intra, share.inter] for share in expected_ratios(experiment)]
