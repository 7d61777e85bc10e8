// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"errors"
	"time"

	"bicast/mptcp"
)

// The names and units of api/agent.proto.
type connectionJSON struct {
	Token         string        `json:"token"`
	PathManager   string        `json:"path_manager"`
	Serves        bool          `json:"serves"`
	BytesSent     uint64        `json:"bytes_sent"`
	BytesReceived uint64        `json:"bytes_received"`
	Processes     []processJSON `json:"processes"`
	Subflows      []subflowJSON `json:"subflows"`
}

type processJSON struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

type subflowJSON struct {
	LocalAddress     string `json:"local_address"`
	LocalPort        uint16 `json:"local_port"`
	RemoteAddress    string `json:"remote_address"`
	RemotePort       uint16 `json:"remote_port"`
	LocalID          uint8  `json:"local_id"`
	RemoteID         uint8  `json:"remote_id"`
	Established      bool   `json:"established"`
	BackupByUs       bool   `json:"backup_by_us"`
	BackupByPeer     bool   `json:"backup_by_peer"`
	SRTT             int64  `json:"srtt_us"`
	MinRTT           int64  `json:"min_rtt_us"`
	CwndSegments     uint32 `json:"cwnd_segments"`
	MSSBytes         uint32 `json:"mss_bytes"`
	InFlightSegments uint32 `json:"in_flight_segments"`
	DeliveryRateBPS  uint64 `json:"delivery_rate_bps"`
	SegmentsSent     uint64 `json:"segments_sent"`
	Retransmits      uint64 `json:"retransmits"`
	BytesAcked       uint64 `json:"bytes_acked"`
	BytesReceived    uint64 `json:"bytes_received"`
	SinceAck         int64  `json:"since_ack_ms"`
	SinceData        int64  `json:"since_data_ms"`
}

func (s *session) listJSON(all []listed) error {
	told := make([]connectionJSON, 0, len(all))
	for _, c := range all {
		manager, err := s.handle.PathManagerOf(c.Connection)
		if errors.Is(err, mptcp.Gone) || errors.Is(err, mptcp.Reused) {
			continue // just now
		}
		if err != nil {
			return err
		}
		one := connectionJSON{
			Token: c.Token.String(), PathManager: manager.String(), Serves: c.Serves,
			BytesSent: c.BytesSent, BytesReceived: c.BytesReceived,
			Processes: []processJSON{}, Subflows: []subflowJSON{},
		}
		for _, p := range c.holders {
			one.Processes = append(one.Processes, processJSON(p))
		}
		for _, f := range c.Subflows {
			one.Subflows = append(one.Subflows, subflowAsJSON(f))
		}
		told = append(told, one)
	}
	encoder := json.NewEncoder(s.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(told)
}

func subflowAsJSON(f mptcp.Subflow) subflowJSON {
	return subflowJSON{
		LocalAddress: f.Local.Addr().String(), LocalPort: f.Local.Port(),
		RemoteAddress: f.Remote.Addr().String(), RemotePort: f.Remote.Port(),
		LocalID: f.LocalID, RemoteID: f.RemoteID, Established: f.Established,
		BackupByUs: f.BackupByUs, BackupByPeer: f.BackupByPeer,
		SRTT: f.SRTT.Microseconds(), MinRTT: f.MinRTT.Microseconds(), CwndSegments: f.CwndSegments,
		MSSBytes: f.MSSBytes, InFlightSegments: f.InFlightSegments, DeliveryRateBPS: f.DeliveryRateBPS,
		SegmentsSent: f.SegmentsSent, Retransmits: f.Retransmits, BytesAcked: f.BytesAcked,
		BytesReceived: f.BytesReceived, SinceAck: f.SinceAck.Milliseconds(), SinceData: f.SinceData.Milliseconds(),
	}
}

// An event; what its kind does not say is left out.
type eventJSON struct {
	At            string `json:"at"`
	Event         string `json:"event"`
	Token         string `json:"token,omitempty"`
	LocalAddress  string `json:"local_address,omitempty"`
	LocalPort     uint16 `json:"local_port,omitempty"`
	RemoteAddress string `json:"remote_address,omitempty"`
	RemotePort    uint16 `json:"remote_port,omitempty"`
	LocalID       *uint8 `json:"local_id,omitempty"`
	RemoteID      *uint8 `json:"remote_id,omitempty"`
	Backup        *bool  `json:"backup,omitempty"`
	Serves        *bool  `json:"serves,omitempty"`
	Error         string `json:"error,omitempty"`
	ResetReason   uint32 `json:"reset_reason,omitempty"`
}

func eventAsJSON(e mptcp.Event) eventJSON {
	told := eventJSON{
		At: e.At.Format(time.RFC3339Nano), Event: e.Kind.String(), LocalPort: e.Local.Port(), RemotePort: e.Remote.Port(),
		ResetReason: e.ResetReason,
	}
	if e.Token != 0 {
		told.Token = e.Token.String()
	}
	if e.Local.Addr().IsValid() {
		told.LocalAddress = e.Local.Addr().String()
	}
	if e.Remote.Addr().IsValid() {
		told.RemoteAddress = e.Remote.Addr().String()
	}
	if e.Errno != 0 {
		told.Error = e.Errno.Error()
	}
	switch e.Kind {
	case mptcp.ConnectionCreated, mptcp.ConnectionEstablished:
		told.Serves = &e.ServerSide
	case mptcp.SubflowEstablished, mptcp.SubflowClosed, mptcp.PriorityChanged:
		told.LocalID, told.RemoteID, told.Backup = &e.LocalID, &e.RemoteID, &e.Backup
	case mptcp.AddressAnnounced, mptcp.AddressRemoved:
		told.RemoteID = &e.RemoteID
	}
	return told
}
