"""Catalogue of published traces: addresses, licences, and which files can be fetched.

Only files with a permissive licence and a known checksum are downloaded. The checksums are those of
the files in the named repositories at the named commits. For all other files the catalogue has the
address and instructions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile

from fedsim.core import downloads
from fedsim.core.blocks.wording import unknown
from fedsim.core.errors import DataError
from fedsim.core.memory import check_budget

# Downloads of freely licensed third-party files. Each is verified before use.
# A checksum is the SHA-256 of a file, or git's blob name: the SHA-1 of a header with the length,
# followed by the content.

_KEY = "fetch"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicFile:
    """A public file.

    Attributes:
        name: the name of the file.
        address: the address of the download.
        known: the checksum, "sha256:..." or "git:...".
        size: the size, bytes; 0 if unknown.
        unpacked: the suffix of the files to extract from an archive; empty for other files.
    """

    name: str
    address: str
    known: str
    size: int = 0
    unpacked: str = ""


def obtain(file: PublicFile, folder: Path) -> Path:
    """Download a file, verify it and, if it is an archive, extract it.

    An existing file with the right checksum is not downloaded again. A file with a wrong checksum
    is not stored.

    Args:
        file: the file.
        folder: the folder to store it in.

    Returns:
        The path of the file, or of the folder with the contents of the archive.

    Raises:
        DataError: the file cannot be downloaded, or has another checksum.
    """
    path = folder / file.name
    try:
        downloads.obtain(file.address, path, size=file.size, known=file.known, key=_KEY)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        text = f"cannot fetch {file.name} from {file.address}: {reason}. Without a network: get it"
        raise DataError(_KEY, f"{text} from there by other means, and put it at {path}") from error
    return _unpack(path, file.unpacked) if file.unpacked else path


def _unpack(path: Path, ending: str) -> Path:
    """Extract the files of an archive with a suffix, except hidden ones; return their folder."""
    folder = path.with_suffix("")
    try:
        with ZipFile(path) as archive:
            wanted = [
                member for member in archive.infolist() if _is_wanted(member.filename, ending)
            ]
            check_budget(_KEY, f"{path}: what is in it", sum(member.file_size for member in wanted))
            for member in wanted:
                archive.extract(member, folder)  # never writes outside the folder
    except (BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DataError(_KEY, f"cannot unpack {path}: {error}") from error
    return folder


def _is_wanted(name: str, ending: str) -> bool:
    parts = PurePosixPath(name).parts
    return name.endswith(ending) and not any(part.startswith((".", "__")) for part in parts)


_RAW = "https://raw.githubusercontent.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTraces:
    """A published set of traces.

    Attributes:
        serves: its use in a scenario.
        licence: the licence of the set; "none said" if none is stated.
        origin: its authors and publication.
        page: its address.
        files: the files to download; empty if it must be obtained by hand.
        hand: why it is not downloaded, and how to obtain it.
    """

    serves: str
    licence: str
    origin: str
    page: str
    files: tuple[PublicFile, ...] = ()
    hand: str = ""

    @property
    def download(self) -> str:
        """The size of the download, human-readable; "by hand" if there is none."""
        if not self.files:
            return "by hand"
        size = sum(file.size for file in self.files) * 1e-6
        return f"{size:.1f} MB" if all(file.size for file in self.files) else "size unknown"


def _mahimahi(name: str, size: int, known: str) -> PublicFile:
    commit = "ae477d437615b972217498ba52be07db17a15618"
    address = f"{_RAW}/ravinet/mahimahi/{commit}/traces/{name}"
    return PublicFile(name=name, address=address, known=f"sha256:{known}", size=size)


def _fedscale(name: str, known: str) -> PublicFile:
    folder = "SymbioticLab/FedScale/7ec441c2afa99510535adebe155d89fa8bb2c637/benchmark/dataset/data"
    return PublicFile(
        name=name, address=f"{_RAW}/{folder}/device_info/{name}", known=f"git:{known}"
    )


TRACE_SETS: Mapping[str, PublishedTraces] = {
    "mahimahi": PublishedTraces(
        serves="up_trace, down_trace: {kind: mahimahi}",
        licence="GPL-3.0",
        origin="Winstein et al., Stochastic Forecasts Achieve High Throughput and Low Delay over "
        "Cellular Networks, NSDI 2013; Netravali et al., USENIX ATC 2015",
        page="https://github.com/ravinet/mahimahi",
        files=(
            _mahimahi(
                "ATT-LTE-driving-2016.up",
                113062,
                "ebb3d53674b77be4ed920ad91c4513a496e04e30da839e2ca8a627cb7269071e",
            ),
            _mahimahi(
                "ATT-LTE-driving-2016.down",
                271440,
                "24a40538340de991e0a6595aefc381b11a3da0446176e69b51750707a57b0344",
            ),
            _mahimahi(
                "TMobile-UMTS-driving.up",
                506697,
                "f2dc7c8e57f4cf525fefaff2d68c18a9118fd1382ce9c240b1d324a2a60f8a65",
            ),
            _mahimahi(
                "TMobile-UMTS-driving.down",
                1081622,
                "c97a74e7e6cf593d93b59f73db614bc6186bef510531636ad9961a3b9fc18024",
            ),
            _mahimahi(
                "Verizon-LTE-short.up",
                434258,
                "f6cd9049f58d70f12545772a3482ded085b6d50f06a2f4ff4afcfb6fe7976dcc",
            ),
            _mahimahi(
                "Verizon-LTE-short.down",
                365580,
                "c918436fbd6246af134c76585d9395881fdd27203c59a8902b9a7c675b8a8e3e",
            ),
        ),
    ),
    "ucc-5g": PublishedTraces(
        serves="up_trace, down_trace: {kind: ucc-5g}",
        licence="GPL-3.0",
        origin="Raca et al., Beyond Throughput, The Next Generation, MMSys 2020",
        page="https://github.com/uccmisl/5Gdataset",
        files=(
            PublicFile(
                name="5G-production-dataset.zip",
                address=f"{_RAW}/uccmisl/5Gdataset/306d92eba81cb4f1195d8b8eba625666a02a10ec/"
                "5G-production-dataset.zip",
                known="sha256:abc729d696b5e0ba34a9c6ed35a851f2868d2b5071be5efb8a49691c23bb1a9b",
                size=2177094,
                unpacked=".csv",
            ),
        ),
    ),
    "fedscale": PublishedTraces(
        serves="availability: {kind: fedscale}; fedsim.physics.formats.fleets.fedscale_fleet",
        licence="Apache-2.0",
        origin="Lai et al., FedScale, ICML 2022",
        page="https://github.com/SymbioticLab/FedScale",
        files=(
            _fedscale("client_behave_trace", "5bc3b516c0ee0a0de2c6267e39cd863717d5a63b"),
            _fedscale("client_device_capacity", "0cb98be00fac42c6b961cae0dbc1a6c25be88828"),
        ),
    ),
    "flash": PublishedTraces(
        serves="availability: {kind: flash}; charging: {kind: flash}",
        licence="BSD-2-Clause",
        origin="Yang et al., Characterizing Impacts of Heterogeneity in Federated Learning upon "
        "Large-Scale Smartphone Data, WWW 2021",
        page="https://github.com/PKU-Chengxu/FLASH",
        files=(
            PublicFile(
                name="state_traces.json",
                address=f"{_RAW}/PKU-Chengxu/FLASH/55cbede0131877b583ed55333e980985a1925afd/"
                "data/state_traces.json",
                known="git:ef5c8286588932652d3562183d0c962260c54dc9",
            ),
        ),
    ),
    "lumos5g": PublishedTraces(
        serves="down_trace: {kind: lumos5g}",
        licence="CC BY 4.0",
        origin="Narayanan et al., Lumos5G, IMC 2020, doi 10.1145/3419394.3423629",
        page="https://lumos5g.umn.edu",
        hand="no checksum of it is known; get Lumos5G-v1.0.csv, and name it in path",
    ),
    "pensieve": PublishedTraces(
        serves="up_trace, down_trace: {kind: pensieve}",
        licence="MIT (the program; of the traces none said)",
        origin="Mao et al., Neural Adaptive Video Streaming with Pensieve, SIGCOMM 2017; FCC, "
        "Measuring Broadband America",
        page="https://github.com/hongzimao/pensieve",
        hand="its traces are in a shared folder that traces/README.md names, without a checksum; "
        "get train_sim_traces or test_sim_traces, and name a file of them in path",
    ),
    "sigcomm21": PublishedTraces(
        serves="up_trace, down_trace: {kind: pensieve}",
        licence="none said",
        origin="Narayanan et al., A Variegated Look at 5G in the Wild, SIGCOMM 2021",
        page="https://github.com/SIGCOMM21-5G/artifact",
        hand="no licence allows it; look at Video-Streaming/Network-Traces there",
    ),
    "monroe": PublishedTraces(
        serves="up_trace, down_trace: {kind: monroe}",
        licence="none said",
        origin="Midoglu et al., MONROE-Nettest, 2017, arXiv:1710.07805",
        page="https://mosaic-simulamet.com/large-scale-speedtest-experimentation-in-mobile-"
        "broadband-networks/",
        hand="no licence or checksum of it is known; get a flows file, and name it in path",
    ),
    "loed": PublishedTraces(
        serves="fedsim.physics.formats.fleets.lorawan_fleet",
        licence="CC BY 4.0",
        origin="Bhatia et al., LoED: The LoRaWAN at the Edge Dataset, DATA 2020",
        page="https://doi.org/10.5281/zenodo.4121430",
        hand="no checksum of it is known; get LoED_LoRaWAN_at_edge_dataset.zip, and unpack a day",
    ),
}
"""The published sets of traces, by name."""


def fetch_traces(name: str, folder: Path) -> list[Path]:
    """Download a set of traces into a folder, and verify it.

    Args:
        name: the name of the set.
        folder: a cache, in which each set has its own folder.

    Returns:
        For each download, the file or the folder with the extracted files.

    Raises:
        DataError: there is no such set, it has to be obtained by hand, or the download fails or has
            another checksum.
    """
    if name not in TRACE_SETS:
        raise DataError("fetch", f"there are no such traces: {unknown(name, list(TRACE_SETS))}")
    trace_set = TRACE_SETS[name]
    if not trace_set.files:
        text = f"{name} is not fetched: {trace_set.hand}. It is at {trace_set.page}; licence: "
        raise DataError("fetch", text + trace_set.licence)
    return [obtain(file, folder / name) for file in trace_set.files]
