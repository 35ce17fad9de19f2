"""The demo's last request to a large model: the whole report, too long for a small one."""

from __future__ import annotations

from headwater.cli.demo_data import Language
from headwater.cli.demo_scenario import Turn

LEAST_CHARACTERS = 600

REPORTS: dict[Language, Turn] = {
    "en": Turn(
        "Thank you. Now write the full weather report for the newspaper, in several paragraphs and at least 900 "
        "characters long: today's weather in Beijing and in Shanghai, the next seven days in Beijing, the warnings "
        "with their times, and what people should do.",
        (("31",), ("24",), ("36",), ("yellow", "blue")),
    ),
    "zh": Turn(
        "谢谢。现在请为报纸写一份完整的天气报告，分成几段，不少于900字：北京和上海今天的天气、北京未来七天的天气、各项预警及其时间，以及给市民的建议。",
        (("31",), ("24",), ("36",), ("黄色", "蓝色")),
    ),
}
"""Longer is asked for than is demanded: models count badly."""


def judge_report(language: Language, text: str) -> list[str]:
    """The demands that a report does not meet, a sentence each."""
    missing: list[str] = []
    if len(text) < LEAST_CHARACTERS:
        missing.append(f"The full report has {len(text)} characters, not {LEAST_CHARACTERS}.")
    missing += [
        f"The full report lacks {' or '.join(group)}."
        for group in REPORTS[language].facts
        if not any(fact.lower() in text.lower() for fact in group)
    ]
    return missing
