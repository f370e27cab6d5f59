"""The numbers that fields take: types with their bounds."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticKnownError


def _no_truth(rule: Literal["int_type", "float_type"]) -> BeforeValidator:
    """Python counts true as 1; where a number belongs it is a mistake."""

    def check(value: Any) -> Any:
        if isinstance(value, bool):
            raise PydanticKnownError(rule)
        return value

    return BeforeValidator(check)


WHOLE, REAL = _no_truth("int_type"), _no_truth("float_type")
LARGEST = 10**9
"""Of any count: what is larger is a slip, and would end in an array of no possible size."""

AtLeastZero = Annotated[int, Field(ge=0), WHOLE]
AtLeastOne = Annotated[int, Field(ge=1), WHOLE]
Count = Annotated[AtLeastOne, Field(le=LARGEST)]
Round = Annotated[int, Field(ge=0, le=LARGEST), WHOLE]
"""Rounds are counted from 0."""

NotNegative = Annotated[float, Field(ge=0), REAL]
Positive = Annotated[float, Field(gt=0), REAL]
UpToOne = Annotated[float, Field(ge=0, le=1), REAL]
BelowOne = Annotated[float, Field(ge=0, lt=1), REAL]
Share = Annotated[float, Field(gt=0, le=1), REAL]
"""A part of something, or a chance, that must not be nothing."""
