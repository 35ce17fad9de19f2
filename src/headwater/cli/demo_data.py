"""The demo's tools: made-up, plausible weather and news that never change.

The numbers are invented and occur nowhere else, so that an answer which holds them has read the tools' results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

Language: TypeAlias = Literal["en", "zh"]
DemoTool: TypeAlias = Callable[..., str]

_DAYS_MAX = 7

_CITIES = {"beijing": "beijing", "peking": "beijing", "北京": "beijing", "shanghai": "shanghai", "上海": "shanghai"}

_DAY_EN = ("Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday")
_DAY_ZH = ("星期四", "星期五", "星期六", "星期日", "星期一", "星期二", "星期三")
_SKY_ZH = {"sunny": "晴", "cloudy": "多云", "light rain": "小雨", "moderate rain": "中雨", "thunderstorms": "雷阵雨"}
_WET = frozenset({"light rain", "moderate rain", "thunderstorms"})


class _Day(NamedTuple):
    """One day: the sky, the high and the low in °C."""

    sky: str
    high: int
    low: int


_FORECAST = {
    "beijing": (
        _Day("sunny", 31, 19),
        _Day("sunny", 33, 20),
        _Day("sunny", 36, 22),
        _Day("cloudy", 34, 23),
        _Day("thunderstorms", 28, 20),
        _Day("light rain", 25, 18),
        _Day("cloudy", 29, 17),
    ),
    "shanghai": (
        _Day("moderate rain", 24, 21),
        _Day("light rain", 23, 20),
        _Day("cloudy", 26, 20),
        _Day("cloudy", 27, 21),
        _Day("sunny", 30, 22),
        _Day("sunny", 32, 24),
        _Day("thunderstorms", 29, 23),
    ),
}

_WARNINGS_EN = (
    "Yellow heat warning for Beijing, valid until Sunday 20:00: up to 36 °C on Saturday.\n"
    "Blue thunderstorm warning for Beijing, from Monday 14:00: gusts of wind of 62 km/h."
)
_WARNINGS_ZH = (
    "北京高温黄色预警，有效至星期日20时：星期六最高36°C。\n北京雷电蓝色预警，星期一14时起：阵风每小时62公里。"
)


def city_key(city: str) -> str | None:
    """Which of the demo's cities is meant, in any of their spellings; None: another one."""
    name = city.lower()
    return next((key for spelling, key in _CITIES.items() if spelling in name), None)


def tools(language: Language) -> tuple[DemoTool, ...]:
    """The functions `weather` and `search`, described and answering in this language. They have no side effect."""
    return _english() if language == "en" else _chinese()


def _forecast_en(city: str, days: tuple[_Day, ...]) -> str:
    today = days[0]
    if len(days) == 1:
        return f"{city} today: {today.sky}, high {today.high} °C, low {today.low} °C."
    hottest = max(days, key=lambda d: d.high)
    mostly = Counter(d.sky for d in days).most_common(1)[0][0]
    wet = " and ".join(f"{d.sky} on {_DAY_EN[i]}" for i, d in enumerate(days) if d.sky in _WET)
    return (
        f"{city}, next {len(days)} days: mostly {mostly}, highs from {min(d.high for d in days)} to {hottest.high} °C, "
        f"hottest on {_DAY_EN[days.index(hottest)]} with {hottest.high} °C, {wet or 'no rain'}."
    )


def _forecast_zh(city: str, days: tuple[_Day, ...]) -> str:
    today = days[0]
    if len(days) == 1:
        return f"{city}今天：{_SKY_ZH[today.sky]}，最高{today.high}°C，最低{today.low}°C。"
    hottest = max(days, key=lambda d: d.high)
    mostly = _SKY_ZH[Counter(d.sky for d in days).most_common(1)[0][0]]
    wet = "，".join(f"{_DAY_ZH[i]}{_SKY_ZH[d.sky]}" for i, d in enumerate(days) if d.sky in _WET)
    return (
        f"{city}未来{len(days)}天：以{mostly}为主，最高气温{min(d.high for d in days)}至{hottest.high}°C，"
        f"{_DAY_ZH[days.index(hottest)]}最热，达{hottest.high}°C，{wet or '无雨'}。"
    )


def _english() -> tuple[DemoTool, ...]:
    def weather(city: str, days: int = 1) -> str:
        """Get the weather of one city: today, or a forecast of several days.

        Args:
            city: Name of the city.
            days: How many days, from 1 (only today) to 7 (a week).
        """
        key = city_key(city)
        if key is None:
            return f"No data for {city}. Known cities: Beijing, Shanghai."
        return _forecast_en(key.capitalize(), _FORECAST[key][: max(1, min(days, _DAYS_MAX))])

    def search(query: str) -> str:
        """Search the news and official notices, for example weather warnings.

        Args:
            query: What to look for.
        """
        return _WARNINGS_EN if city_key(query) == "beijing" else f"Nothing found for: {query}"

    return weather, search


def _chinese() -> tuple[DemoTool, ...]:
    def weather(city: str, days: int = 1) -> str:
        """查询一个城市的天气：当天，或未来几天的预报。

        Args:
            city: 城市名称。
            days: 天数，从1（仅今天）到7（一周）。
        """
        key = city_key(city)
        if key is None:
            return f"没有{city}的数据。可查城市：北京、上海。"
        name = "北京" if key == "beijing" else "上海"
        return _forecast_zh(name, _FORECAST[key][: max(1, min(days, _DAYS_MAX))])

    def search(query: str) -> str:
        """搜索新闻和官方通知，例如天气预警。

        Args:
            query: 要搜索的内容。
        """
        return _WARNINGS_ZH if city_key(query) == "beijing" else f"没有找到：{query}"

    return weather, search
