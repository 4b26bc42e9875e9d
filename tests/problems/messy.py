"""Tables as people have them: of scikit-learn's data, and one with everything wrong."""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets

HOSPITALS = ("Charité Berlin", "Köln-Süd", "Ulm", "St. Mary's", "Genève", "Århus")


def sklearn_frame(name: str) -> pd.DataFrame:
    """Return a data set of scikit-learn as a frame, with the texts of its labels."""
    found = getattr(datasets, f"load_{name}")(as_frame=True)
    frame: pd.DataFrame = found.frame.copy()
    names = getattr(found, "target_names", None)
    if names is not None:
        frame["target"] = [str(names[int(label)]) for label in frame["target"]]
    return frame


def with_hospitals(frame: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Return a frame with a column of hospitals, of unequal sizes."""
    rng = np.random.default_rng(seed)
    shares = np.arange(1.0, len(HOSPITALS) + 1)
    drawn = rng.choice(len(HOSPITALS), len(frame), p=shares / shares.sum())
    drawn[: len(HOSPITALS)] = np.arange(len(HOSPITALS))
    return frame.assign(hospital=[HOSPITALS[number] for number in drawn])


def openml_like(rows: int = 300, seed: int = 1) -> pd.DataFrame:
    """Return a table as OpenML has them: quoted texts, question marks, two classes by name."""
    rng = np.random.default_rng(seed)
    age = rng.integers(19, 75, rows)
    status = rng.choice(["<0", "0<=X<200", ">=200", "no checking"], rows)
    amount = np.exp(rng.normal(7.8, 0.8, rows)).round()
    odds = 0.04 * (age - 45) - 0.8 * (status == "<0") - (amount > 5000)
    good = rng.random(rows) < 1 / (1 + np.exp(-odds))
    frame = pd.DataFrame(
        {
            "checking_status": status,
            "credit_amount": amount,
            "age": age.astype(object),
            "purpose": rng.choice(
                ["radio/tv", "new car", "education"], rows, p=[0.6, 0.395, 0.005]
            ),
            "foreign_worker": rng.choice(["yes", "no"], rows, p=[0.9, 0.1]),
            "class": np.where(good, "good", "bad"),
        }
    )
    frame.loc[rng.choice(rows, 12, replace=False), "age"] = "?"
    frame.loc[rng.choice(rows, 7, replace=False), "checking_status"] = "?"
    return frame


def write_wrong(path: Path, rows: int = 240, seed: int = 2) -> pd.DataFrame:
    """Write a table in which everything is wrong, and return its rows as they are meant.

    Semicolons, decimal commas, Latin-1, blank lines, repeated rows, gaps of several kinds, blanks
    after names of clients, an identifier, an empty and a constant column, dates.
    """
    rng = np.random.default_rng(seed)
    value = rng.normal(size=(rows, 2)).round(3) * [10, 1000] + [120, 4000]
    risk = value[:, 0] - 120 + rng.normal(size=rows) * 6 > 0
    day = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 500, rows), "D")
    frame = pd.DataFrame(
        {
            "patient_id": [f"P{number:05d}" for number in range(rows)],
            "Größe": value[:, 0],
            "weight": value[:, 1],
            "ward": rng.choice(["cardio", "Chirurgie", "Pädiatrie"], rows),
            "admitted": day,
            "hospital": [HOSPITALS[number % 4] for number in range(rows)],
            "outcome": np.where(risk, "at risk", "healthy"),
        }
    )
    frame.loc[[3, 17], "Größe"] = np.nan
    frame.loc[[5], "ward"] = None
    lines = ["patient_id;Größe;weight;ward;admitted;empty;country;hospital;outcome"]
    for number, row in enumerate(frame.to_dict("records")):
        size = "n/a" if np.isnan(row["Größe"]) else f"{row['Größe']:.3f}".replace(".", ",")
        thousands, rest = divmod(round(row["weight"] * 100), 100_000)
        weight = f"{thousands}.{rest // 100:03d},{rest % 100:02d}"
        hospital = row["hospital"] + (" " if number % 3 == 0 else "")
        ward = row["ward"] if isinstance(row["ward"], str) else ""
        cells = (row["patient_id"], size, weight, f" {ward}", f"{row['admitted']:%d.%m.%Y}", "",
                 "DE", hospital, row["outcome"])  # fmt: skip
        lines.append(";".join(cells))
        if number % 50 == 0:
            lines += ["", ";;;;;;;;"]
    lines += lines[-2:]  # repeated rows
    path.write_bytes("\r\n".join(lines).encode("latin-1"))
    return frame
