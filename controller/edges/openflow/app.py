# SPDX-License-Identifier: Apache-2.0
"""The Ryu app. It knows nothing about networks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from controller.edges.openflow.connection import OPENING_S, SwitchConnection
from controller.edges.openflow.frames import advertise, ask, ask_far
from controller.edges.openflow.framework import (
    CONFIG,
    DEAD,
    MAIN,
    App,
    EventMessage,
    Framework,
    handles,
    ofp_event,
    ofproto,
)
from controller.edges.openflow.listener import Reception
from controller.edges.openflow.speaker import SwitchSession, packet_out
from controller.edges.trust.tls import server_context
from controller.model.settings import Endpoint, LocalSocket, MutualTls
from controller.protocol.switch_messages import (
    Advertise,
    Apply,
    Ask,
    AskFar,
    Close,
    Count,
    Effect,
    Read,
    SwitchClosed,
    SwitchEvent,
)

Post = Callable[[SwitchEvent], None]
Opened = dict[int, tuple[SwitchConnection, SwitchSession]]  # by session number


class Bicast(App):  # type: ignore[misc]
    OFP_VERSIONS = [ofproto.OFP_VERSION]  # noqa: RUF012  (the framework's own form)

    def __init__(self, *, post: Post, opened: Opened) -> None:
        super().__init__()
        self._post = post
        self._opened = opened
        self._sessions: dict[SwitchConnection, SwitchSession] = {}
        self._numbers = itertools.count(1)

    @handles(ofp_event.EventOFPSwitchFeatures, CONFIG)
    def on_features(self, event: Any) -> None:
        connection = event.msg.datapath
        if connection not in self._sessions:
            self._sessions[connection] = SwitchSession(next(self._numbers), event.msg.datapath_id, connection.peer)

    @handles(ofp_event.EventOFPPortDescStatsReply, CONFIG)
    def on_ports(self, event: Any) -> None:
        self._sessions[event.msg.datapath].ports_described(event.msg.body)

    @handles(ofp_event.EventOFPStateChange, MAIN)
    def on_ready(self, event: Any) -> None:
        connection = event.datapath
        session = self._sessions[connection]
        connection.opened = True
        self._opened[session.number] = (connection, session)
        self._post(session.opened())

    @handles(ofp_event.EventOFPPortStatus, MAIN)
    def on_port(self, event: Any) -> None:
        self._post(self._sessions[event.msg.datapath].port_changed(event.msg.reason, event.msg.desc))

    @handles(EventMessage, MAIN)
    def on_message(self, event: Any) -> None:
        for said in self._sessions[event.datapath].on_event(event.kind, event.xid, event.data):
            self._post(said)

    @handles(ofp_event.EventOFPStateChange, DEAD)
    def on_end(self, event: Any) -> None:
        session = self._sessions.pop(event.datapath, None)
        if session is not None and self._opened.pop(session.number, None) is not None:
            self._post(SwitchClosed(session.number))


class Wire:
    """The core's access to all switches."""

    def __init__(self, listen: Endpoint | LocalSocket, tls: MutualTls | None, post: Post) -> None:
        """`post` is called in the framework's threads and must not block. Raises FrameworkError and TlsError."""
        self._opened: Opened = {}
        self._reception = Reception(None if tls is None else server_context(tls))
        self._framework = Framework(listen, Bicast, self._reception.serve, post=post, opened=self._opened)
        self.address = self._framework.address

    def perform(self, effect: Effect) -> None:
        """Send an order from the core's thread, without waiting. Orders for ended sessions are dropped."""
        if effect.session not in self._opened:
            return
        connection, session = self._opened[effect.session]
        match effect:
            case Close(_, reason):
                self._framework.call(connection.refuse, reason)
            case Read():
                self._framework.call(connection.send, session.read(effect))
            case Apply():
                self._framework.call(connection.send, session.apply(effect))
            case Ask():
                self._framework.call(connection.send, packet_out(effect.out_port, ask(effect)))
            case Advertise():
                self._framework.call(connection.send, packet_out(effect.out_port, advertise(effect)))
            case Count():
                self._framework.call(connection.send, session.count())
            case AskFar():
                self._framework.call(connection.send, packet_out(effect.out_port, ask_far(effect)))

    def stop(self) -> None:
        """Stop listening and end every connection. Each SwitchClosed is posted before this returns."""
        self._framework.close()
        self._framework.call(self._reception.close)
        self._reception.alone(OPENING_S)
        self._framework.stop()
