"""The names of BMv2's CRCs, and what they stand for."""

from dataclasses import dataclass

from weft.switch.engine.program.program import number

SAME = {
    "cksum16": "csum16", "bmv2_hash": "xxh64", "crc16_custom": "crc16", "crc_16": "crc16",
    "crc32_custom": "crc32", "crc_32": "crc32", "crc_ccitt_false": "crcCCITT",
}  # fmt: skip
"""Other names of the same functions."""

CUSTOM = {"crc16_custom": 16, "crc32_custom": 32}
"""The CRCs whose parameters a controller can set, and the bits of their results."""


@dataclass(frozen=True)
class CrcParameters:
    """The parameters of a CRC; reflected ones take the least significant bit first."""

    polynomial: int
    initial: int
    final: int
    reflects_data: bool
    reflects_result: bool


CRCS = {
    "crc8_custom": (8, 0x07, 0, 0, False),
    "crc64_custom": (64, 0x1B, 0, 0, True),
    "crc_8": (8, 0x07, 0, 0, False),
    "crc_8_darc": (8, 0x39, 0, 0, True),
    "crc_8_i_code": (8, 0x1D, 0xFD, 0, False),
    "crc_8_itu": (8, 0x07, 0, 0x55, False),
    "crc_8_maxim": (8, 0x31, 0, 0, True),
    "crc_8_rohc": (8, 0x07, 0xFF, 0, True),
    "crc_8_wcdma": (8, 0x9B, 0, 0, True),
    "crc_16_buypass": (16, 0x8005, 0, 0, False),
    "crc_16_dds_110": (16, 0x8005, 0x800D, 0, False),
    "crc_16_dect": (16, 0x0589, 0, 0x0001, False),
    "crc_16_dnp": (16, 0x3D65, 0, 0xFFFF, True),
    "crc_16_en_13757": (16, 0x3D65, 0, 0xFFFF, False),
    "crc_16_genibus": (16, 0x1021, 0xFFFF, 0xFFFF, False),
    "crc_16_maxim": (16, 0x8005, 0, 0xFFFF, True),
    "crc_16_mcrf4xx": (16, 0x1021, 0xFFFF, 0, True),
    "crc_16_riello": (16, 0x1021, 0xB2AA, 0, True),
    "crc_16_t10_dif": (16, 0x8BB7, 0, 0, False),
    "crc_16_teledisk": (16, 0xA097, 0, 0, False),
    "crc_16_usb": (16, 0x8005, 0xFFFF, 0xFFFF, True),
    "x_25": (16, 0x1021, 0xFFFF, 0xFFFF, True),
    "xmodem": (16, 0x1021, 0, 0, False),
    "modbus": (16, 0x8005, 0xFFFF, 0, True),
    "kermit": (16, 0x1021, 0, 0, True),
    "crc_aug_ccitt": (16, 0x1021, 0x1D0F, 0, False),
    "crc_32_bzip2": (32, 0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF, False),
    "crc_32c": (32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, True),
    "crc_32d": (32, 0xA833982B, 0xFFFFFFFF, 0xFFFFFFFF, True),
    "crc_32_mpeg": (32, 0x04C11DB7, 0xFFFFFFFF, 0, False),
    "posix": (32, 0x04C11DB7, 0, 0xFFFFFFFF, False),
    "crc_32q": (32, 0x814141AB, 0, 0, False),
    "jamcrc": (32, 0x04C11DB7, 0xFFFFFFFF, 0, True),
    "xfer": (32, 0x000000AF, 0, 0, False),
    "crc_64": (64, 0x1B, 0, 0, True),
    "crc_64_we": (64, 0x42F0E1EBA9EA3693, (1 << 64) - 1, (1 << 64) - 1, False),
    "crc_64_jones": (64, 0xAD93D23594C935A9, (1 << 64) - 1, 0, True),
}
"""BMv2's other CRCs: width, polynomial, initial value, what the result is XORed with, and whether
bytes and result are taken least significant bit first."""


def custom_crc(name: str) -> tuple[int, int, int, int, bool] | None:
    """Return the parameters of a name such as ``poly_0x18005_init_0xffff_not_rev_xout_0x1``."""
    parts = name.split("_")
    values = {"init": 0, "xout": 0}
    polynomial, reflected = "", True
    while parts:
        part = parts.pop(0)
        match part:
            case "not" if parts[:1] == ["rev"]:
                parts.pop(0)
                reflected = False
            case "poly" | "init" | "xout" if parts:
                text = parts.pop(0)
                if part == "poly":
                    polynomial = text
                else:
                    values[part] = number(text)
            case _:
                return None
    width = (len(polynomial) - 3) * 4
    if not polynomial.startswith("0x1") or width not in (8, 16, 32, 64):
        return None
    most = (1 << width) - 1
    return width, number(polynomial) & most, values["init"] & most, values["xout"] & most, reflected
