"""Modes and active uplinks, as they are wished for: of one terminal, of all, or of a class of traffic."""

from __future__ import annotations

from enum import StrEnum

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, StrictStr

from controller.model import EVERYBODY, WRITTEN, Mode
from controller.web.problems import described
from controller.wishes import Answer, UnknownTerminal, Writer


class WishedMode(StrEnum):
    BICAST = Mode.BICAST
    SINGLE = Mode.SINGLE
    OFF = Mode.OFF
    AUTO = Mode.AUTO
    FILE = WRITTEN  # that of the configuration

    @property
    def mode(self) -> Mode | None:
        return None if self is WishedMode.FILE else Mode(self.value)


class ModeWish(BaseModel):
    model_config = ConfigDict(extra="forbid")
    mode: WishedMode


class ActiveWish(BaseModel):
    model_config = ConfigDict(extra="forbid")
    uplink: StrictStr


def add_wishes(app: FastAPI, writer: Writer) -> None:
    wrong = {409: "impossible", 415: "not JSON", 422: "malformed"}
    of_one = described({404: "no such terminal"}, wrong)

    @app.put(
        "/api/v1/mode",
        summary="Set the mode of every terminal, or leave it to the file: file",
        responses=described(wrong),
    )
    def set_mode_of_all(wish: ModeWish) -> Answer:
        return writer.set_mode(EVERYBODY, wish.mode.mode)

    @app.put(
        "/api/v1/terminals/{name}/mode",
        summary="Set the mode of a terminal, or leave it to the file: file",
        responses=of_one,
    )
    def set_mode(name: str, wish: ModeWish) -> Answer:
        return writer.set_mode(_one(name), wish.mode.mode)

    of_a_class = "Set the mode of a class of traffic, {}, or leave it to the file: file"

    @app.put(
        "/api/v1/classes/{traffic}/mode",
        summary=of_a_class.format("of every terminal whose site has it"),
        responses=described({404: "no such class"}, wrong),
    )
    def set_class_mode_of_all(traffic: str, wish: ModeWish) -> Answer:
        return writer.set_mode(EVERYBODY, wish.mode.mode, traffic)

    @app.put(
        "/api/v1/terminals/{name}/classes/{traffic}/mode",
        summary=of_a_class.format("of one terminal"),
        responses=described({404: "no such terminal or class"}, wrong),
    )
    def set_class_mode(name: str, traffic: str, wish: ModeWish) -> Answer:
        return writer.set_mode(_one(name), wish.mode.mode, traffic)

    @app.put(
        "/api/v1/terminals/{name}/active",
        summary="Set the active uplink of a terminal, or leave it to policies: auto",
        responses=of_one,
    )
    def set_active(name: str, wish: ActiveWish) -> Answer:
        return writer.set_active(_one(name), wish.uplink)

    def _one(name: str) -> str:
        if name == EVERYBODY:
            every = "PUT /api/v1/mode (`./bicast mode all MODE`) sets the mode of all"
            one_class = "PUT /api/v1/classes/CLASS/mode that of one class"
            raise UnknownTerminal(f"there is no terminal 'all': {every}, {one_class}; nothing sets the uplink of all")
        return name
