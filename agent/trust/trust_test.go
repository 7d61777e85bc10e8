// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/agent/internal/controllertest"
	"bicast/agent/trust"
)

func join(t *testing.T, b *controllertest.Controller, name string, token trust.Token) (trust.Identity, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), controllertest.Patience)
	defer cancel()
	return trust.Join(ctx, b.Enrolment, name, token)
}

func says(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("nothing was refused, expected %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Fatalf("said %q, expected %q in it", err, word)
		}
	}
}

func TestATypedNameIsKeptForSessions(t *testing.T) {
	b := controllertest.New(t)
	b.Advertised = "192.0.2.1"
	_, door, _ := net.SplitHostPort(b.Enrolment)
	_, port, _ := net.SplitHostPort(b.Sessions)
	for host, expected := range map[string]string{"localhost": "localhost:" + port, "127.0.0.1": "192.0.2.1:" + port} {
		identity, err := trust.Join(context.Background(), net.JoinHostPort(host, door), "phone", b.Token("phone"))
		if err != nil || identity.Session != expected {
			t.Errorf("joined at %s: sessions at %q (%v), expected %q", host, identity.Session, err, expected)
		}
	}
}

func TestJoinSavesAPrivateIdentity(t *testing.T) {
	b := controllertest.New(t)
	identity, err := join(t, b, "phone", b.Token("phone"))
	if err != nil {
		t.Fatal(err)
	}
	if identity.Session != b.Sessions {
		t.Fatalf("sessions at %s, expected %s: the host that was asked, where the controller names none", identity.Session, b.Sessions)
	}
	directory := filepath.Join(t.TempDir(), "new")
	if err := identity.Save(directory); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(directory)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v, expected one file", files, err)
	}
	if info, err := files[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("its mode is %v, expected 0600", info.Mode())
	}
	kept, err := trust.Load(directory)
	if err != nil {
		t.Fatal(err)
	}
	if !kept.Key.Equal(identity.Key) || !kept.Certificate.Equal(identity.Certificate) || kept.Name != "phone" {
		t.Fatal("what is read is not what was saved")
	}
}

func TestATokenIsValidOnceForOneName(t *testing.T) {
	b := controllertest.New(t)
	token := b.Token("phone")
	if _, err := join(t, b, "phone", token); err != nil {
		t.Fatal(err)
	}
	_, err := join(t, b, "phone", token)
	says(t, err, "refused the token", "used")
	_, err = join(t, b, "laptop", b.Token("phone"))
	says(t, err, "refused the token", "another name's")
}

func TestTheTokenIsNotSentToAnotherController(t *testing.T) {
	b, other := controllertest.New(t), controllertest.New(t)
	token := b.Token("phone")
	token.Pin = other.Authority.Pin()
	_, err := join(t, b, "phone", token)
	says(t, err, "fingerprint in the token")
	if b.Asked() != 0 {
		t.Fatal("a secret was told to a stranger")
	}
}

func TestAnAgentsCertificateIsNoControllers(t *testing.T) {
	b := controllertest.New(t)
	agent := b.Authority.Controller(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	b.Stop()
	b.Shows = agent
	b.Start()
	_, err := join(t, b, "phone", b.Token("phone"))
	says(t, err, "not the controller", "an agent's")
}

// The errors of both sides of a handshake.
func handshake(t *testing.T, shows tls.Certificate, identity trust.Identity) error {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	go tls.Server(there, &tls.Config{Certificates: []tls.Certificate{shows}}).Handshake()
	return tls.Client(here, identity.Mutual()).Handshake()
}

func TestAControllerWithAnOlderTLSIsRefused(t *testing.T) {
	b := controllertest.New(t)
	identity, err := join(t, b, "phone", b.Token("phone"))
	if err != nil {
		t.Fatal(err)
	}
	for newest, welcome := range map[uint16]bool{tls.VersionTLS12: false, tls.VersionTLS13: true} {
		here, there := net.Pipe()
		go tls.Server(there, &tls.Config{Certificates: []tls.Certificate{b.Shows}, MaxVersion: newest}).Handshake()
		err := tls.Client(here, identity.Mutual()).Handshake()
		here.Close()
		there.Close()
		if (err == nil) != welcome {
			t.Errorf("of %s: %v", tls.VersionName(newest), err)
		}
	}
}

func TestErrorsOfTheControllersCertificateAreExplained(t *testing.T) {
	ours, other := controllertest.NewAuthority(t), controllertest.NewAuthority(t)
	identity := ours.Identity("phone", "controller:1")
	if err := handshake(t, ours.Controller(nil), identity); err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]struct {
		shows tls.Certificate
		words []string
	}{
		"another CA": {other.Controller(nil), []string{"join again"}},
		"another name": {
			ours.Controller(func(c *x509.Certificate) { c.DNSNames = []string{"elsewhere"} }), []string{trust.ControllerName},
		},
		"expired": {ours.Controller(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}), []string{"clock"}},
		"not yet valid": {ours.Controller(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		}), []string{"clock"}},
		"an agent": {ours.Controller(func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}), []string{"an agent's"}},
	} {
		t.Run(name, func(t *testing.T) { says(t, handshake(t, wrong.shows, identity), wrong.words...) })
	}
}

func TestADamagedIdentityIsReportedWithTheRemedy(t *testing.T) {
	directory := t.TempDir()
	_, err := trust.Load(directory)
	says(t, err, "has not joined", "bicast enroll", directory)
	authority := controllertest.NewAuthority(t)
	good, other := authority.Identity("phone", "controller:1"), authority.Identity("phone", "controller:1")
	for name, bend := range map[string]func(*trust.Identity){
		"another key":  func(i *trust.Identity) { i.Key = other.Key },
		"another name": func(i *trust.Identity) { i.Name = "laptop" },
		"another CA":   func(i *trust.Identity) { i.CA = controllertest.NewAuthority(t).Certificate },
		"no address":   func(i *trust.Identity) { i.Session = "" },
	} {
		bent := good
		bend(&bent)
		if err := bent.Save(directory); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			_, err := trust.Load(directory)
			says(t, err, "damaged", "`bicast-agent join` again")
		})
	}
	for _, text := range []string{"", "{", "[]", `{"key": "AAAA"}`} {
		if err := os.WriteFile(filepath.Join(directory, "identity.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := trust.Load(directory)
		says(t, err, "damaged", "`bicast-agent join` again")
	}
}

func TestAnIncompleteTokenIsRefused(t *testing.T) {
	whole := controllertest.New(t).Token("phone")
	if again, err := trust.ParseToken(whole.String() + "\n"); err != nil || again != whole {
		t.Fatalf("%v, %v, expected %v", again, err, whole)
	}
	for _, text := range []string{
		"", ".", whole.Secret, whole.Secret + ".", "." + whole.Pin.String(), whole.String()[1:], whole.String() + "a",
		whole.String()[:len(whole.String())-1], strings.ToUpper(whole.String()),
	} {
		_, err := trust.ParseToken(text)
		says(t, err, "bicast enroll NAME")
	}
}

func TestJoinNeedsAnAddressWithAPort(t *testing.T) {
	_, err := trust.Join(context.Background(), "controller", "phone", trust.Token{})
	says(t, err, "HOST:PORT")
}

func TestJoinOverwritesAKilledJoinButNotARunningOne(t *testing.T) {
	directory := t.TempDir()
	left := filepath.Join(directory, "identity.json.new")
	if err := os.WriteFile(left, []byte("half an identity"), 0o600); err != nil {
		t.Fatal(err)
	}
	reservation, err := trust.Reserve(directory)
	if err != nil {
		t.Fatal(err)
	}
	_, err = trust.Reserve(directory)
	says(t, err, "another `bicast-agent join` has locked", "another directory with --directory")
	reservation.Release()
	if files, err := os.ReadDir(directory); err != nil || len(files) != 0 {
		t.Fatalf("%v, %v, expected nothing to be left", files, err)
	}
}

func TestLoadRefusesPipesDevicesAndLongFiles(t *testing.T) {
	for what, make := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"gigabytes": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 3<<30))
		},
	} {
		t.Run(what, func(t *testing.T) {
			directory := t.TempDir()
			if err := make(filepath.Join(directory, "identity.json")); err != nil {
				t.Fatal(err)
			}
			_, err := trust.Load(directory)
			says(t, err, "identity.json: expected a regular file of at most", "the user that ran `bicast-agent join`")
		})
	}
}

func TestRenewKeepsNameKeyAndRole(t *testing.T) {
	authority, directory := controllertest.NewAuthority(t), t.TempDir()
	identity := authority.Bound("phone", "terminal:phone", "controller:1")
	if err := identity.Save(directory); err != nil {
		t.Fatal(err)
	}
	same := authority.Renewed(identity).Raw
	for reason, certificate := range map[string][]byte{
		"another key":                authority.Bound("phone", "terminal:phone", "controller:1").Certificate.Raw,
		`the name "laptop"`:          authority.Agent("laptop", &identity.Key.PublicKey).Raw,
		"not signed by the CA":       controllertest.NewAuthority(t).Agent("phone", &identity.Key.PublicKey).Raw,
		`for the role ""`:            authority.Agent("phone", &identity.Key.PublicKey).Raw,
		"invalid new certificate of": same[1:],
	} {
		says(t, trust.Renew(directory, certificate), reason)
	}
	if err := trust.Renew(directory, same); err != nil {
		t.Fatal(err)
	}
	renewed, err := trust.Load(directory)
	if err != nil || !bytes.Equal(renewed.Certificate.Raw, same) || !renewed.Key.Equal(identity.Key) {
		t.Fatalf("%v, %v, expected the new certificate with the key of before", renewed.Certificate, err)
	}
}
