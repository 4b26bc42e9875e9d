"""The table of countries: grams of CO2 for a kilowatt-hour of the grid, and their source."""

from collections.abc import Mapping

from fedsim.blocks.presets import Doubt, Preset
from fedsim.physics.sources import EMBER

YEAR = 2024
"""What the figures are the means of."""

_EMBER = "Ember, Yearly Electricity Data, CC BY 4.0"

HOURS = 0.60, 1.33
"""What an hour's intensity is of the year's mean, in nine hours of ten: the quantiles of 5 and 95 %
of all hours of 2022 in eight balancing areas of the United States, each by its own mean."""


def _country(intensity: float, name: str) -> Preset:
    """Return a country by its mean intensity, g/kWh."""
    low, high = (f"{intensity * share:.4g} g/kWh" for share in HOURS)
    return Preset(
        f"[lit] {name}, mean of {YEAR}: {_EMBER}",
        {"intensity": f"{intensity} g/kWh"},
        {"intensity": Doubt(low, high, "lit", EMBER)},
    )


COUNTRIES: Mapping[str, Preset] = {
    "AE": _country(467.51, "United Arab Emirates"),
    "AR": _country(344.83, "Argentina"),
    "AT": _country(102.62, "Austria"),
    "AU": _country(553.76, "Australia"),
    "BD": _country(694.63, "Bangladesh"),
    "BE": _country(117.58, "Belgium"),
    "BG": _country(264.21, "Bulgaria"),
    "BO": _country(468.02, "Bolivia"),
    "BR": _country(106.06, "Brazil"),
    "CA": _country(184.99, "Canada"),
    "CH": _country(36.72, "Switzerland"),
    "CL": _country(265.52, "Chile"),
    "CN": _country(557.5, "China"),
    "CO": _country(285.8, "Colombia"),
    "CR": _country(63.01, "Costa Rica"),
    "CZ": _country(413.86, "Czechia"),
    "DE": _country(342.06, "Germany"),
    "DK": _country(143.3, "Denmark"),
    "EE": _country(341.02, "Estonia"),
    "EG": _country(574.5, "Egypt"),
    "ES": _country(146.15, "Spain"),
    "FI": _country(72.25, "Finland"),
    "FR": _country(44.18, "France"),
    "GB": _country(215.79, "United Kingdom"),
    "GR": _country(319.76, "Greece"),
    "HR": _country(174.48, "Croatia"),
    "HU": _country(182.82, "Hungary"),
    "IE": _country(279.79, "Ireland"),
    "IN": _country(708.96, "India"),
    "IR": _country(648.68, "Iran"),
    "IT": _country(287.75, "Italy"),
    "JP": _country(483.73, "Japan"),
    "KE": _country(84.83, "Kenya"),
    "KR": _country(415.65, "South Korea"),
    "KZ": _country(801.79, "Kazakhstan"),
    "LT": _country(139.34, "Lithuania"),
    "LU": _country(134.62, "Luxembourg"),
    "LV": _country(136.22, "Latvia"),
    "MA": _country(577.65, "Morocco"),
    "MX": _country(483.14, "Mexico"),
    "MY": _country(604.43, "Malaysia"),
    "NG": _country(507.85, "Nigeria"),
    "NL": _country(252.7, "Netherlands"),
    "NO": _country(30.75, "Norway"),
    "NZ": _country(120.11, "New Zealand"),
    "PE": _country(263.27, "Peru"),
    "PH": _country(613.38, "Philippines"),
    "PK": _country(398.61, "Pakistan"),
    "PL": _country(614.98, "Poland"),
    "PT": _country(111.8, "Portugal"),
    "RO": _country(245.55, "Romania"),
    "RS": _country(670.8, "Serbia"),
    "RU": _country(446.17, "Russia"),
    "SA": _country(691.95, "Saudi Arabia"),
    "SE": _country(35.89, "Sweden"),
    "SG": _country(498.74, "Singapore"),
    "SI": _country(227.11, "Slovenia"),
    "SK": _country(96.49, "Slovakia"),
    "TH": _country(555.43, "Thailand"),
    "TR": _country(469.7, "Türkiye"),
    "TW": _country(635.15, "Taiwan"),
    "US": _country(383.55, "United States"),
    "UY": _country(96.7, "Uruguay"),
    "VN": _country(486.13, "Viet Nam"),
    "ZA": _country(713.9, "South Africa"),
}
"""The presets, by ISO 3166-1 alpha-2 codes.

Greenhouse gases of a whole year's generation over its life cycle, fuels and plants included, in
grams of CO2 equivalents, divided by the electricity that was generated: what is imported, what
the lines lose, and the hour of the day are not in it. Ember, "Yearly Electricity Data",
https://ember-energy.org/data/yearly-electricity-data/, as republished in
data/output/average-intensities.json of github.com/thegreenwebfoundation/co2.js.

Their doubt, `HOURS`, is that of a run of an hour or so, at an arbitrary time of the year.
"""
