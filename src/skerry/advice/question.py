"""The question of `skerry.advise`: goal, candidates, prices, budget and time."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from skerry.advice.target import EXAMPLES, CostUnit, ScoreTarget, read_target
from skerry.clock.settings import EXAMPLES as CLOCKS
from skerry.clock.settings import Clock
from skerry.clock.units import joules, seconds
from skerry.config import labels
from skerry.config.presets import PRESETS
from skerry.errors import SkerryError, argument, unknown
from skerry.plugins import registry
from skerry.plugins.fingerprint import as_text
from skerry.theory.communication import ONE_EACH, Prices

if TYPE_CHECKING:
    from skerry.config.experiment import Experiment
    from skerry.config.fields import Server
    from skerry.engine.world import World

Goal: TypeAlias = Literal["global", "own", "both", "worst_tenth"]
GOALS: tuple[Goal, ...] = get_args(Goal)
DEFAULT_GOAL: Goal = "both"
USUAL_GOALS: tuple[Goal, ...] = ("global", "own", "both")  # always shown; others if asked for
PRIMITIVES = ("s2s", "s2a", labels.BLEND)
AMONG = (labels.NO_SERVER, *PRIMITIVES)
BETAS = (0.25, 0.5, 0.75)
SEEDS = 100
MINUTES = 5.0
EVERY_ISLAND = "one_each"  # compared with the experiment's own selection

_LINKS = {"up": "uplink", "down": "downlink", "broadcast": "broadcast", "d2d": "d2d"}


@dataclass(frozen=True)
class Among:
    """The primitives, selection rules and presets that may be recommended."""

    primitives: tuple[tuple[str, float | None], ...] = ()  # (primitive, beta of a blend or None)
    selections: tuple[str, ...] = ()  # empty: the experiment's own, and one_each
    presets: tuple[str, ...] = ()

    @property
    def none(self) -> bool:
        """Whether "no server" may be recommended; it is always run for comparison."""
        return any(primitive == labels.NO_SERVER for primitive, _ in self.primitives)

    def selections_for(self, server: "Server", sizes: Sequence[int]) -> tuple[str, ...]:
        """The selection rules to compare on islands of these sizes."""
        if self.selections or len(sizes) == 1 or max(sizes) == 1:
            return self.selections or (server.selection,)
        return tuple(dict.fromkeys((server.selection, EVERY_ISLAND)))


@dataclass(frozen=True)
class Question:
    """The question that a user puts to `skerry.advise`: goal, candidates, prices and budget."""

    goal: Goal = DEFAULT_GOAL
    among: Among = Among()
    prices: Prices = ONE_EACH
    limit: float | None = None  # largest cost in messages at their prices
    bytes: float | None = None
    seconds: float | None = None
    joules: float | None = None
    clock: Clock | None = None
    clock_name: str = ""  # the file or the example, if it has one
    cost: CostUnit | None = None  # the cost axis; None: as the budget, the target or the clock says
    target: ScoreTarget | None = None  # reach a score soonest, instead of the best score
    sampled: tuple[int, ...] | None = None  # values of K to try; None: a range, which may extend
    periods: tuple[int, ...] | None = None  # values of H to try, likewise
    stepsizes: tuple[float, ...] | None = None
    seeds: int = SEEDS  # largest number of fresh seeds
    minutes: float = MINUTES

    def __post_init__(self) -> None:
        read_goal(self.goal)
        budgets = {
            "messages": self.limit,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "joules": self.joules,
        }
        given = [name for name, value in budgets.items() if value is not None]
        if len(given) > 1:
            raise SkerryError(
                "a budget is in messages, bytes, seconds or joules (got "
                f"{' and '.join(given)}). Leave out one."
            )
        self._check_clock(given)
        for words, value in (
            *((f"a budget of {name}", value) for name, value in budgets.items()),
            (argument("minutes"), self.minutes),
        ):
            least = 0 if words.startswith("a budget") else 1e-9
            if value is not None and not least <= value < float("inf"):
                rule = "at least 0" if least == 0 else "above 0"
                raise SkerryError(f"{words} must be {rule} (got {value:g}). Raise it.")
        if self.seeds < 2:
            raise SkerryError(
                f"{argument('seeds')} must be at least 2, because one seed does not show chance "
                f"(got {self.seeds}). Raise it."
            )
        for name, values in (
            ("sampled", self.sampled),
            ("periods", self.periods),
            ("stepsizes", self.stepsizes),
        ):
            for value in values or ():
                if not 0 < value < float("inf"):
                    raise SkerryError(
                        f"{argument(name)} must be above 0 (got {value:g}). Raise it."
                    )

    def _check_clock(self, budgets: list[str]) -> None:
        """Raise SkerryError where seconds or joules are asked for without a clock, or two costs."""
        asked = [f"a budget of {name}" for name in ("seconds", "joules") if name in budgets]
        asked += [f"the goal '{self.target.goal}'"] if self.target else []
        asked += [f"{argument('cost')} {self.cost}"] if self.cost in ("seconds", "joules") else []
        if asked and self.clock is None:
            raise SkerryError(
                f"{asked[0]} needs a clock. Give {argument('clock')} with a file, or an example: "
                f"{', '.join(CLOCKS)}."
            )
        joules = self.unit == "joules" or (self.target and self.target.unit == "joules")
        if joules and self.clock is not None and not self.clock.has_energy:
            raise SkerryError(
                "the clock has no energies, so nothing costs joules. Set compute.watts, or "
                "joules_per_byte of d2d, uplink or downlink."
            )
        if budgets and self.cost not in (None, self.unit):
            raise SkerryError(
                f"{argument('cost')} must be that of the budget, which is in {budgets[0]} (got "
                f"{self.cost}). Leave out one."
            )

    @property
    def has_budget(self) -> bool:
        budgets = (self.limit, self.bytes, self.seconds, self.joules)
        return any(one is not None for one in budgets)

    @property
    def unit(self) -> CostUnit:
        """The unit of costs: of the budget, else as asked, else of the target or the clock."""
        if self.limit is not None or self.bytes is not None:
            return "messages"
        if self.seconds is not None or self.joules is not None:
            return "seconds" if self.joules is None else "joules"
        if self.cost is not None:
            return self.cost
        return self.target.unit if self.target else "seconds" if self.clock else "messages"

    @property
    def cost_unit(self) -> str:
        """The unit of costs in words."""
        if self.unit != "messages":
            return self.unit
        if self.bytes is not None:
            return "MB"
        if self.prices == Prices(downlink=0.0):
            return "uploads"
        return "messages" if self.prices == ONE_EACH else "units of cost"

    def check_fits(self, server: "Server") -> None:
        """Raise SkerryError where the server's messages cannot be counted beforehand."""
        timed = {"deadline": server.deadline is not None, "over_sample": server.over_sample > 0}
        if fields := [f"server.{name}" for name, is_set in timed.items() if is_set]:
            value = getattr(server, fields[0].partition(".")[2])
            raise SkerryError(
                f"advice needs settings in which the seed decides who takes part, but with "
                f"{fields[0]} the clock decides it, in each setting another way (got {value:g}). "
                f"Leave out {' and '.join(fields)}, and try it on the recommended setting."
            )
        moving = server.first_schedule("sampled", "period")
        if moving and self.has_budget:
            raise SkerryError(
                f"a budget needs a constant K and H (got {moving}). Set it to constant, or ask "
                "without a budget."
            )


def read_goal(goal: str) -> Goal:
    if goal not in GOALS:
        raise SkerryError(unknown("goal", goal, (*GOALS, *EXAMPLES)))
    return goal


def read_goal_and_target(text: str) -> tuple[Goal, ScoreTarget | None]:
    """A goal with its target: `own`, `88% soonest`, `own 88% with fewest joules`."""
    found = read_target(text)
    if found is None:
        return read_goal(text), None
    name, target = found
    return (read_goal(name) if name else DEFAULT_GOAL), target


def read_cost(unit: str) -> CostUnit:
    units: tuple[CostUnit, ...] = get_args(CostUnit)
    for one in units:
        if one == unit:
            return one
    raise SkerryError(unknown("cost", unit, units))


def read_budget(unit: str, value: float | str | None) -> float | None:
    """A budget of seconds or joules: 90, "2 h", "3 kJ"."""
    if value is None:
        return None
    try:
        return {"seconds": seconds, "joules": joules}[unit](value)
    except ValueError as error:
        raise SkerryError(f"a budget of {unit} {error}") from None


def read_among(names: str | Sequence[str | Callable[..., Any]] | None) -> Among:
    """Read primitives, presets and selection rules, such as `s2s,blend:0.3,carry,one_each`. Without
    primitives and presets all primitives are meant; `blend` without a beta means BETAS."""
    asked = names.split(",") if isinstance(names, str) else names or AMONG
    given = dict.fromkeys(str(as_text(name)).strip() for name in asked)
    presets = tuple(name for name in given if name in PRESETS)
    selections = tuple(name for name in given if name not in PRESETS and _is_selection(name))
    primitives = [name for name in given if name not in (*presets, *selections)]
    usual = () if presets else AMONG
    return Among(_read_primitives(primitives or usual), selections, presets)


def _is_selection(name: str) -> bool:
    """A built-in one, or a user's own `package.module:function`."""
    if registry.is_builtin("selection", name):
        return True
    own = ":" in name and name.partition(":")[0] not in registry.PRIMITIVES
    if own and (fault := registry.name_fault("selection", name)):
        raise SkerryError(fault)
    return own


def _read_primitives(names: Sequence[str]) -> tuple[tuple[str, float | None], ...]:
    found: dict[tuple[str, float | None], None] = {}
    for name in names:
        primitive, beta = labels.read_label(name)
        if primitive not in AMONG:
            known = (*AMONG, "blend:0.5", *registry.KINDS["selection"], *PRESETS)
            raise SkerryError(unknown("primitive, selection or preset", primitive, known))
        if beta in (0, 1):
            raise SkerryError(
                f"a blend's beta lies between 0, which is s2s, and 1, which is s2a (got "
                f"'{name}'). Name those, or give a beta such as blend:0.25"
            )
        many = primitive == labels.BLEND and beta is None
        found |= dict.fromkeys((primitive, one) for one in (BETAS if many else (beta,)))
    return tuple(found)


def read_prices(text: str | None) -> Prices:
    """Read prices such as `up=1,down=.2,broadcast=3,d2d=.01`; others keep their default."""
    given: dict[str, float] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        link, _, price = (word.strip() for word in part.partition("="))
        if link not in _LINKS:
            raise SkerryError(unknown("link", link, _LINKS))
        try:
            given[_LINKS[link]] = float(price)
        except ValueError:
            raise SkerryError(
                f"the price of {link} must be a number (got '{price}'). Example: up=1,down=0.2"
            ) from None
        if not 0 <= given[_LINKS[link]] < float("inf"):
            raise SkerryError(f"the price of {link} must be at least 0 (got {price}). Raise it.")
    return Prices(**given)


def special_cases(question: Question, experiment: "Experiment", world: "World") -> Iterator[str]:
    """Notes on special cases of this question and fleet."""
    server = experiment.server
    if len(world.sizes) == 1:
        yield "there is one island, so mixing alone brings all devices to consensus in time"
    if max(world.sizes) == 1 and world.n > 1:
        yield "no device has a neighbour, so only the server averages their models"
    if server.first_schedule("sampled", "period"):
        counted = "; costs count its first value" if question.unit == "messages" else ""
        yield f"K or H follows a schedule, so neither was varied{counted}"
    if server.primitive not in (*PRIMITIVES, labels.NO_SERVER):
        yield f"'{server.primitive}' is your own primitive, which advice does not compare"
    if not experiment.training.is_plain:
        yield "the theory covers only plain SGD; with another local optimizer the pilot decides"
    if world.private and question.goal != "own":
        yield "the average model has the mean of the private parts, which no device has"
    if not world.learner.classifies:
        yield "the model has no accuracy: candidates are compared by the loss of the average model"
    elif world.task.judged_by == "loss":
        yield f"the task is {world.task.description}: candidates are compared by their losses"
    if experiment.network.compresses or server.compresses:
        if question.unit == "messages":
            yield "messages are compressed, but prices and budgets count each as a whole model"
        changes = experiment.network.compresses and not world.fleet_of(experiment).fixed
        if question.clock is not None and changes:
            yield (
                "links are compressed and change: seconds and joules leave out what a device sends "
                "to catch up when a link is up again, so they are somewhat too low"
            )


class Timer:
    """The time limit of a question, and how much of it is left."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic):
        self.seconds, self.clock, self.start = seconds, clock, clock()

    @property
    def spent(self) -> float:
        return self.clock() - self.start

    @property
    def left(self) -> float:
        return self.seconds - self.spent

    def is_up(self) -> bool:
        return self.left < 0

    def now(self, world: "World") -> float:
        """The clock after all pending GPU work of the world."""
        if world.device.type == "cuda":
            import torch

            torch.cuda.synchronize(world.device)
        return self.clock()
