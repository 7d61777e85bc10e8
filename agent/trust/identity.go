// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"bicast/internal/durable"
	"bicast/internal/regularfile"
)

// DefaultDirectory contains the identity of the machine's agent.
const DefaultDirectory = "/var/lib/bicast-agent"

// One file, so that a crash cannot leave a key beside another key's certificate.
const identityFile = "identity.json"

// Identity is the result of joining: the agent's certificate and key, and the address and CA of its controller.
type Identity struct {
	Name        string
	Session     string // host:port of the controller's sessions
	Certificate *x509.Certificate
	CA          *x509.Certificate
	Key         *ecdsa.PrivateKey
}

// identityJSON is the format of the file. Bytes are DER in base64.
type identityJSON struct {
	Name        string `json:"name"`
	Session     string `json:"session"`
	Certificate []byte `json:"certificate"`
	CA          []byte `json:"ca"`
	Key         []byte `json:"key"`
}

// Reservation is a locked file with allocated disk space for an identity. An agent reserves the file before it requests
// a certificate: the request uses up the token, and a failed save would lose the identity.
type Reservation struct {
	file      *os.File
	directory string
}

// identityBytes has room for two certificates and a key of some hundred bytes each.
const identityBytes = 16 << 10

// Reserve creates the file and allocates its room on the disk.
func Reserve(directory string) (Reservation, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return Reservation{}, saveError(err)
	}
	file, err := openLocked(filepath.Join(directory, identityFile+".new"))
	if err != nil {
		return Reservation{}, saveError(err)
	}
	reservation := Reservation{file, directory}
	_, err = file.WriteAt(make([]byte, identityBytes), 0)
	if err = errors.Join(err, file.Sync()); err != nil {
		reservation.Release()
		return Reservation{}, saveError(err)
	}
	return reservation, nil
}

// openLocked opens and locks the file of a reservation. It reuses the file of a killed `bicast-agent join`.
func openLocked(name string) (*os.File, error) {
	for {
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("another `bicast-agent join` has locked %s: wait until it ends", name)
		}
		if err != nil {
			file.Close()
			return nil, err
		}
		if isStillAt(file, name) {
			return file, nil
		}
		file.Close() // the previous owner renamed or removed it before this process got the lock
	}
}

// isStillAt reports whether the name still refers to the open file.
func isStillAt(file *os.File, name string) bool {
	ours, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(ours, there)
}

func saveError(err error) error {
	return fmt.Errorf("cannot save the identity: %w; choose another directory with --directory", err)
}

// Release removes the file of an unused reservation.
func (r Reservation) Release() {
	os.Remove(r.file.Name()) // first: after the close, it could remove the file of another process
	r.file.Close()
}

// Keep replaces the identity in the directory, readable by its owner only. The reservation cannot be used again.
func (r Reservation) Keep(i Identity) error {
	if err := r.write(i); err != nil {
		r.Release()
		return err
	}
	return r.file.Close()
}

func (r Reservation) write(i Identity) error {
	key, err := x509.MarshalECPrivateKey(i.Key)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(identityJSON{i.Name, i.Session, i.Certificate.Raw, i.CA.Raw, key}, "", "  ")
	if err != nil {
		return err
	}
	n, err := r.file.WriteAt(append(text, '\n'), 0)
	err = errors.Join(err, r.file.Truncate(int64(n)), r.file.Sync())
	if err == nil {
		err = durable.Rename(r.file.Name(), filepath.Join(r.directory, identityFile))
	}
	if err != nil {
		return saveError(err)
	}
	return nil
}

// Save reserves a file and writes the identity to it.
func (i Identity) Save(directory string) error {
	reservation, err := Reserve(directory)
	if err != nil {
		return err
	}
	return reservation.Keep(i)
}

// Renew replaces the certificate of the identity in a directory by a new one for the same name, key and role.
func Renew(directory string, certificate []byte) error {
	identity, err := Load(directory)
	if err != nil {
		return err
	}
	role := identity.Role()
	identity.Certificate, err = x509.ParseCertificate(certificate)
	if err == nil {
		err = identity.check()
	}
	if err == nil && identity.Role() != role {
		err = fmt.Errorf("it is for the role %q, expected %q", identity.Role(), role)
	}
	if err != nil {
		return fmt.Errorf("invalid new certificate of the controller: %w", err)
	}
	return identity.Save(directory)
}

// Load reads the identity that Save wrote.
func Load(directory string) (Identity, error) {
	path := filepath.Join(directory, identityFile)
	text, err := readWhole(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, fmt.Errorf("this agent has not joined, since %s does not exist: run `bicast enroll NAME` on the controller, "+
			"then `bicast-agent join ADDRESS --name NAME --token TOKEN --directory %s` here", path, directory)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("cannot read the identity (%w): run as the user that ran `bicast-agent join`, or with "+
			"its --directory", err)
	}
	identity, err := parseIdentity(text)
	if err != nil {
		return Identity{}, fmt.Errorf("%s is damaged (%w): run `bicast-agent join` again", path, err)
	}
	return identity, nil
}

func readWhole(path string) ([]byte, error) {
	text, _, err := regularfile.Read(path, identityBytes)
	if unfit := (*regularfile.Unfit)(nil); errors.As(err, &unfit) {
		return nil, fmt.Errorf("%s: expected a regular file of at most %d bytes", path, identityBytes)
	}
	return text, err
}

// Stamp returns a text that changes whenever Save replaces the identity. It is empty if there is none.
func Stamp(directory string) string {
	info, err := os.Stat(filepath.Join(directory, identityFile))
	if err != nil {
		return ""
	}
	status := info.Sys().(*syscall.Stat_t)
	return fmt.Sprint(status.Ino, status.Ctim)
}

// NameIn returns the name of the identity in a directory, or NAME if none is readable.
func NameIn(directory string) string {
	identity, err := Load(directory)
	if err != nil {
		return "NAME"
	}
	return identity.Name
}

func parseIdentity(text []byte) (Identity, error) {
	var raw identityJSON
	if err := json.Unmarshal(text, &raw); err != nil {
		return Identity{}, err
	}
	identity := Identity{Name: raw.Name, Session: raw.Session}
	var certificate, ca, key error
	identity.Certificate, certificate = x509.ParseCertificate(raw.Certificate)
	identity.CA, ca = x509.ParseCertificate(raw.CA)
	identity.Key, key = x509.ParseECPrivateKey(raw.Key)
	if err := errors.Join(certificate, ca, key); err != nil {
		return Identity{}, err
	}
	return identity, identity.check()
}

// check returns an error if the parts of an identity do not match.
func (i Identity) check() error {
	public, ok := i.Certificate.PublicKey.(*ecdsa.PublicKey)
	switch {
	case !ok || !public.Equal(&i.Key.PublicKey):
		return errors.New("the certificate is for another key")
	case i.Certificate.Subject.CommonName != i.Name:
		return fmt.Errorf("the certificate is for the name %q, expected %q", i.Certificate.Subject.CommonName, i.Name)
	case i.Certificate.CheckSignatureFrom(i.CA) != nil:
		return errors.New("the certificate is not signed by the CA in the same file")
	case i.Session == "":
		return errors.New("the address of the controller's sessions is missing")
	}
	return nil
}

// rolePrefix precedes the role in a certificate's URI (controller/protocol/enrolment.py).
const rolePrefix = "urn:bicast:agent:"

// Role returns the certificate's role: terminal, gateway or relay, or "" if it has none.
func (i Identity) Role() string {
	for _, uri := range i.Certificate.URIs {
		if rest, ok := strings.CutPrefix(uri.String(), rolePrefix); ok {
			role, _, _ := strings.Cut(rest, ":")
			return role
		}
	}
	return ""
}

func (i Identity) forTLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{i.Certificate.Raw}, PrivateKey: i.Key, Leaf: i.Certificate}
}
