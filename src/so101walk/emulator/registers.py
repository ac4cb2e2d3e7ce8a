"""The STS3215's memory: addresses, sizes, signs and factory values.

Source: Feetech's memory table of the STS/SMS series, the one that LeRobot 0.6.1's ``motors/feetech/tables.py`` follows.
Names are LeRobot's; tests/emulator/test_registers.py compares addresses, sizes and sign bits with LeRobot's.
"""

from ..errors import UsageError, nearest

__all__ = [
    "EEPROM_END",
    "FACTORY",
    "MEMORY_SIZE",
    "MODEL_NUMBER",
    "READ_ONLY",
    "REGISTERS",
    "SIGN_BIT",
    "decode",
    "encode",
    "factory_memory",
    "find",
]

REGISTERS: dict[str, tuple[int, int]] = {
    "Firmware_Major_Version": (0, 1),
    "Firmware_Minor_Version": (1, 1),
    "Model_Number": (3, 2),
    "ID": (5, 1),
    "Baud_Rate": (6, 1),
    "Return_Delay_Time": (7, 1),
    "Response_Status_Level": (8, 1),
    "Min_Position_Limit": (9, 2),
    "Max_Position_Limit": (11, 2),
    "Max_Temperature_Limit": (13, 1),
    "Max_Voltage_Limit": (14, 1),
    "Min_Voltage_Limit": (15, 1),
    "Max_Torque_Limit": (16, 2),
    "Phase": (18, 1),
    "Unloading_Condition": (19, 1),
    "LED_Alarm_Condition": (20, 1),
    "P_Coefficient": (21, 1),
    "D_Coefficient": (22, 1),
    "I_Coefficient": (23, 1),
    "Minimum_Startup_Force": (24, 2),
    "CW_Dead_Zone": (26, 1),
    "CCW_Dead_Zone": (27, 1),
    "Protection_Current": (28, 2),
    "Angular_Resolution": (30, 1),
    "Homing_Offset": (31, 2),
    "Operating_Mode": (33, 1),
    "Protective_Torque": (34, 1),
    "Protection_Time": (35, 1),
    "Overload_Torque": (36, 1),
    "Over_Current_Protection_Time": (38, 1),
    "Torque_Enable": (40, 1),
    "Acceleration": (41, 1),
    "Goal_Position": (42, 2),
    "Goal_Time": (44, 2),
    "Goal_Velocity": (46, 2),
    "Torque_Limit": (48, 2),
    "Lock": (55, 1),
    "Present_Position": (56, 2),
    "Present_Velocity": (58, 2),
    "Present_Load": (60, 2),
    "Present_Voltage": (62, 1),
    "Present_Temperature": (63, 1),
    "Status": (65, 1),
    "Moving": (66, 1),
    "Present_Current": (69, 2),
    "Goal_Position_2": (71, 2),
    "Maximum_Acceleration": (85, 1),
}
"""Name to (address, bytes). Two-byte registers are little-endian."""

MEMORY_SIZE = 87
EEPROM_END = 40
"""Addresses below this survive a power cycle; the rest is RAM."""

READ_ONLY: tuple[range, ...] = (range(0, 5), range(56, 73))
"""Writes here change nothing: version numbers, and what the servo measures."""

SIGN_BIT: dict[str, int] = {
    "Homing_Offset": 11,
    "Goal_Position": 15,
    "Goal_Velocity": 15,
    "Present_Position": 15,
    "Present_Velocity": 15,
    "Present_Load": 10,
}
"""Signed registers are sign and magnitude: this bit set means negative."""

MODEL_NUMBER = 777

FACTORY: dict[str, int] = {
    "Firmware_Major_Version": 3,  # as SO-101 kits report (3.10)
    "Firmware_Minor_Version": 10,
    "Model_Number": MODEL_NUMBER,
    "ID": 1,
    "Return_Delay_Time": 250,  # x 2 us
    "Response_Status_Level": 1,  # every instruction is answered
    "Max_Position_Limit": 4095,
    "Max_Temperature_Limit": 70,  # deg C
    "Max_Voltage_Limit": 80,  # x 0.1 V: the 7.4 V variant
    "Min_Voltage_Limit": 40,
    "Max_Torque_Limit": 1000,  # x 0.1 %
    "Phase": 12,  # bit 4 clear: positions are one turn, 0 to 4095
    "Unloading_Condition": 44,  # bits 2, 3, 5: overheating, over-current, overload
    "LED_Alarm_Condition": 47,
    "P_Coefficient": 32,
    "D_Coefficient": 32,
    "CW_Dead_Zone": 1,  # ticks
    "CCW_Dead_Zone": 1,
    "Protection_Current": 500,  # x 6.5 mA
    "Angular_Resolution": 1,
    "Protective_Torque": 20,  # % left once overloaded
    "Protection_Time": 200,  # x 10 ms above Overload_Torque
    "Overload_Torque": 80,  # %
    "Over_Current_Protection_Time": 200,  # x 10 ms
    "Torque_Limit": 1000,
    "Lock": 1,
}
"""Values a servo leaves the factory with; every register not named is 0. From Feetech's table."""


def find(name: str) -> tuple[int, int]:
    """Address and size of a register.

    Raises:
        UsageError: There is no such register; the nearest names are offered.
    """
    if name not in REGISTERS:
        raise UsageError(f"unknown register {name!r}; {nearest(name, REGISTERS)}")
    return REGISTERS[name]


def encode(name: str, value: int) -> bytes:
    """A register's value as the bytes on the wire: sign and magnitude where signed, magnitude cut at the register's."""
    size = REGISTERS[name][1]
    bit = SIGN_BIT.get(name)
    if bit is not None:
        magnitude = min(abs(value), (1 << bit) - 1)
        value = magnitude | (1 << bit) if value < 0 else magnitude
    return min(max(value, 0), (1 << 8 * size) - 1).to_bytes(size, "little")


def decode(name: str, data: bytes | bytearray) -> int:
    """The value that a register's bytes mean; the inverse of :func:`encode`."""
    value = int.from_bytes(data, "little")
    bit = SIGN_BIT.get(name)
    if bit is None:
        return value
    magnitude = value & ((1 << bit) - 1)
    return -magnitude if value >> bit & 1 else magnitude


def factory_memory(ident: int) -> bytearray:
    """The whole memory of a new servo with this id."""
    memory = bytearray(MEMORY_SIZE)
    for name, value in (FACTORY | {"ID": ident}).items():
        address, size = REGISTERS[name]
        memory[address : address + size] = encode(name, value)
    return memory
