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

// DefaultDirectory is where an agent keeps its identity.
const DefaultDirectory = "/var/lib/bicast-agent"

// One file, so that a key never stands beside another key's certificate, whenever the machine stops.
const identityFile = "identity.json"

// Identity is what joining gave: who the agent is, and where and how its controller is known.
type Identity struct {
	Name        string
	Session     string // host:port of the controller's sessions
	Certificate *x509.Certificate
	CA          *x509.Certificate
	Key         *ecdsa.PrivateKey
}

// The file's form. Bytes are DER, in base64.
type stored struct {
	Name        string `json:"name"`
	Session     string `json:"session"`
	Certificate []byte `json:"certificate"`
	CA          []byte `json:"ca"`
	Key         []byte `json:"key"`
}

// Place is where an identity is kept, with room for it. It is had before a certificate is asked for: that uses the token
// up, and an identity that cannot be kept then would be lost.
type Place struct {
	file      *os.File
	directory string
}

// Room for any identity: three certificates or keys of some hundred bytes.
const identityBytes = 16 << 10

// Reserve makes the place.
func Reserve(directory string) (Place, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return Place{}, unkept(err)
	}
	file, err := reserved(filepath.Join(directory, identityFile+".new"))
	if err != nil {
		return Place{}, unkept(err)
	}
	place := Place{file, directory}
	_, err = file.WriteAt(make([]byte, identityBytes), 0)
	if err = errors.Join(err, file.Sync()); err != nil {
		place.Release()
		return Place{}, unkept(err)
	}
	return place, nil
}

// reserved opens and locks the file of this name, also one that another process left there.
func reserved(name string) (*os.File, error) {
	for {
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("another `join` has locked %s", name)
		}
		if err != nil {
			file.Close()
			return nil, err
		}
		if isStill(file, name) {
			return file, nil
		}
		file.Close() // the previous owner has renamed it meanwhile
	}
}

func isStill(file *os.File, name string) bool {
	ours, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(ours, there)
}

func unkept(err error) error {
	return fmt.Errorf("the identity cannot be kept: %w; --directory names another place", err)
}

// Release removes a place that was not used.
func (p Place) Release() {
	os.Remove(p.file.Name()) // before the lock is released
	p.file.Close()
}

// Keep replaces what the directory holds; only its owner may read it. The place is used up.
func (p Place) Keep(i Identity) error {
	if err := p.write(i); err != nil {
		p.Release()
		return err
	}
	return p.file.Close()
}

func (p Place) write(i Identity) error {
	key, err := x509.MarshalECPrivateKey(i.Key)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(stored{i.Name, i.Session, i.Certificate.Raw, i.CA.Raw, key}, "", "  ")
	if err != nil {
		return err
	}
	n, err := p.file.WriteAt(append(text, '\n'), 0)
	err = errors.Join(err, p.file.Truncate(int64(n)), p.file.Sync())
	if err == nil {
		err = durable.Rename(p.file.Name(), filepath.Join(p.directory, identityFile))
	}
	if err != nil {
		return unkept(err)
	}
	return nil
}

// Save is Reserve and Keep.
func (i Identity) Save(directory string) error {
	place, err := Reserve(directory)
	if err != nil {
		return err
	}
	return place.Keep(i)
}

// Load reads what Save wrote.
func Load(directory string) (Identity, error) {
	path := filepath.Join(directory, identityFile)
	text, err := readWhole(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, fmt.Errorf("this agent has not joined: there is no %s; on the controller `bicast enroll NAME` "+
			"prints a token for `bicast-agent join ADDRESS --name NAME --token TOKEN --directory %s`", path, directory)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("the identity cannot be read (%w): expected what `bicast-agent join` wrote; be the user who "+
			"joined, or give the --directory of then", err)
	}
	identity, err := parseIdentity(text)
	if err != nil {
		return Identity{}, fmt.Errorf("%s is damaged (%w): expected what `bicast-agent join` writes; join again", path, err)
	}
	return identity, nil
}

func readWhole(path string) ([]byte, error) {
	text, _, err := regularfile.Read(path, identityBytes)
	if unfit := (*regularfile.Unfit)(nil); errors.As(err, &unfit) {
		return nil, fmt.Errorf("%s is no file, or one of more than %d bytes", path, identityBytes)
	}
	return text, err
}

// Stamp is another one when Save has replaced the identity in a directory, and empty when there is none.
func Stamp(directory string) string {
	info, err := os.Stat(filepath.Join(directory, identityFile))
	if err != nil {
		return ""
	}
	status := info.Sys().(*syscall.Stat_t)
	return fmt.Sprint(status.Ino, status.Ctim)
}

// NameIn is the name of the identity in a directory, or NAME when there is none that can be read.
func NameIn(directory string) string {
	identity, err := Load(directory)
	if err != nil {
		return "NAME"
	}
	return identity.Name
}

func parseIdentity(text []byte) (Identity, error) {
	var raw stored
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

// Whether the parts belong together.
func (i Identity) check() error {
	public, ok := i.Certificate.PublicKey.(*ecdsa.PublicKey)
	switch {
	case !ok || !public.Equal(&i.Key.PublicKey):
		return errors.New("the certificate is for another key")
	case i.Certificate.Subject.CommonName != i.Name:
		return fmt.Errorf("the certificate is for the name %q, expected %q", i.Certificate.Subject.CommonName, i.Name)
	case i.Certificate.CheckSignatureFrom(i.CA) != nil:
		return errors.New("the certificate is not signed by the CA beside it")
	case i.Session == "":
		return errors.New("it is not said where the controller's sessions are")
	}
	return nil
}

// rolePrefix is what controller/protocol/enrolment.py writes before a role.
const rolePrefix = "urn:bicast:agent:"

// Role is terminal, gateway or relay, as the certificate says; "" where it says none.
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
