"""Types of answers that tests ask for. They stand in a module, because dataclasses and TypedDicts name each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import BaseModel, Field, model_validator
from typing_extensions import TypedDict


class Line(BaseModel):
    """One line of an invoice."""

    name: str
    price: float = Field(ge=0)


class Invoice(BaseModel):
    """What is to be paid."""

    number: str
    lines: list[Line] = []
    note: str | None = None

    @property
    def total(self) -> float:
        return sum(line.price for line in self.lines)


class Refusal(BaseModel):
    reason: str


@dataclass
class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list[str])


class Movie(TypedDict):
    title: str
    year: int


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Sorted(BaseModel):
    """A list that is only right in order, and a validator that fails in a way of its own."""

    numbers: list[int]

    @model_validator(mode="after")
    def check(self) -> Sorted:
        if self.numbers[0] > self.numbers[-1]:
            raise ValueError("the numbers must rise")
        return self
