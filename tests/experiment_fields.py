"""Every field of an experiment by its path, and experiments by their settings."""

from skerry.config.experiment import Experiment, Section

SECTIONS = {
    name: field.annotation
    for name, field in Experiment.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}
FIELDS = [
    *(name for name in Experiment.model_fields if name not in SECTIONS),
    *(f"{name}.{field}" for name, kind in SECTIONS.items() for field in kind.model_fields),
]


def experiment(*settings: str) -> Experiment:
    return Experiment.parse({}, settings)
