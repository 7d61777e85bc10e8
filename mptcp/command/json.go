// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"errors"
	"time"

	"bicast/mptcp"
)

// connectionJSON has the names and units of api/agent.proto.
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

func (s *session) listJSON(all []ownedConnection) error {
	result := make([]connectionJSON, 0, len(all))
	for _, c := range all {
		manager, err := s.handle.PathManagerOf(c.Connection)
		if errors.Is(err, mptcp.Gone) || errors.Is(err, mptcp.Reused) {
			continue // it has just ended
		}
		if err != nil {
			return err
		}
		entry := connectionJSON{
			Token: c.Token.String(), PathManager: manager.String(), Serves: c.Serves,
			BytesSent: c.BytesSent, BytesReceived: c.BytesReceived,
			Processes: []processJSON{}, Subflows: []subflowJSON{},
		}
		for _, p := range c.holders {
			entry.Processes = append(entry.Processes, processJSON(p))
		}
		for _, f := range c.Subflows {
			entry.Subflows = append(entry.Subflows, subflowAsJSON(f))
		}
		result = append(result, entry)
	}
	encoder := json.NewEncoder(s.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(result)
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

// eventJSON is an event, without the fields that its kind lacks.
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
	result := eventJSON{
		At: e.At.Format(time.RFC3339Nano), Event: e.Kind.String(), LocalPort: e.Local.Port(), RemotePort: e.Remote.Port(),
		ResetReason: e.ResetReason,
	}
	if e.Token != 0 {
		result.Token = e.Token.String()
	}
	if e.Local.Addr().IsValid() {
		result.LocalAddress = e.Local.Addr().String()
	}
	if e.Remote.Addr().IsValid() {
		result.RemoteAddress = e.Remote.Addr().String()
	}
	if e.Errno != 0 {
		result.Error = e.Errno.Error()
	}
	switch e.Kind {
	case mptcp.ConnectionCreated, mptcp.ConnectionEstablished:
		result.Serves = &e.ServerSide
	case mptcp.SubflowEstablished, mptcp.SubflowClosed, mptcp.PriorityChanged:
		result.LocalID, result.RemoteID, result.Backup = &e.LocalID, &e.RemoteID, &e.Backup
	case mptcp.AddressAnnounced, mptcp.AddressRemoved:
		result.RemoteID = &e.RemoteID
	}
	return result
}
