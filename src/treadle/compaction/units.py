"""Which words after a number are its unit."""

from __future__ import annotations

_LENGTHS = "nm µm μm mm cm dm m km in ft yd mi m² km² cm² m³ cm³ ha ml cl dl l L"
_MASSES = "µg μg mg g kg t lb lbs oz"
_TIMES = "ns µs μs us ms s sec secs min mins h hr hrs d w y Hz kHz MHz GHz THz rpm fps"
_AMOUNTS = "B kB KB MB GB TB PB KiB MiB GiB TiB kb Kb Mb Gb bit bits byte bytes px pt em rem dpi MP"
_SCALES = "k K M Bn bn mn Mio Mrd tok % ‰ pp bp ppm ppb"
_PHYSICS = (
    "W kW MW GW Wh kWh MWh J kJ MJ kcal cal V mV kV A mA Ah mAh Ω kΩ N kN Pa hPa kPa MPa bar psi "
    "°C °F ° C F dB lm lx mol Bq Sv mSv bps kbps Mbps Gbps"
)
_CURRENCIES = (
    "€ $ £ ¥ ₹ EUR USD GBP CHF JPY CNY RMB INR AUD CAD NZD SEK NOK DKK PLN CZK HUF RUB TRY BRL MXN "
    "ZAR KRW SGD HKD ILS AED SAR THB UAH BTC ETH"
)
_EASTERN = (
    "元 円 万 亿 億 万元 亿元 個 个 人 名 米 公里 千米 厘米 毫米 克 千克 公斤 吨 升 毫升 "
    "度 秒 分 分钟 時間 小时 小時 天 日 周 週 月 年 次 件 台 本 枚 页 頁 行 条 岁 歳 点 时 時"
)
_WRITTEN_OUT = (
    "percent thousand million billion trillion dollar dollars euro euros pound pounds cents yen "
    "francs rupees milliseconds second seconds minute minutes hour hours day days week weeks month "
    "months year years am pm kilobytes megabytes gigabytes terabytes meters metres kilometers "
    "kilometres miles feet foot inch inches grams kilograms tons tonnes liters litres degrees "
    "watts volts amps pixels tokens requests rows lines pages users people items units points "
    "times turns messages records files connections threads cores nodes replicas retries attempts "
    "seats copies stunden tage minuten sekunden jahre prozent stück heures jours"
)
_EACH = "s sec second min minute h hour day d week month year user request unit seat m² m³ kg"


def is_unit(word: str) -> bool:
    """Whether a word is a unit, a currency or a scale: "GB", "EUR", "km/h", "million"."""
    if word in _UNITS or word.lower() in _WORDS:
        return True
    first, slash, second = word.partition("/")
    return bool(slash and second) and second in _PER and is_unit(first)


_UNITS = frozenset(
    " ".join(
        (_LENGTHS, _MASSES, _TIMES, _AMOUNTS, _SCALES, _PHYSICS, _CURRENCIES, _EASTERN)
    ).split()
)
_WORDS = frozenset(_WRITTEN_OUT.split())
_PER = frozenset(_EACH.split())
