// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/lab"
)

const (
	within = time.Minute
	claims = "CLAIM_TEST_NAME" // this test program, run as a child, claims this name until its input ends
	ownRun = "CLAIM_TEST_RUN"  // it has a /run of its own
	squats = "CLAIM_TEST_BIND" // it binds the socket of this name, and listens if squatListens is set

	squatListens = "CLAIM_TEST_LISTEN"
	nobody       = 65534
)

func TestMain(m *testing.M) {
	if name := os.Getenv(squats); name != "" {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: "@bicast-agent claim " + name})
		}
		if err == nil && os.Getenv(squatListens) != "" {
			err = unix.Listen(fd, 1)
		}
		fmt.Println(err)
		bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}
	if name := os.Getenv(claims); name != "" {
		var err error
		if os.Getenv(ownRun) != "" {
			err = unix.Mount("tmpfs", "/run", "tmpfs", 0, "")
		}
		if err == nil {
			_, err = Take(name, "tests")
		}
		fmt.Println(err)
		bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// another runs a child that tries to claim a name, and returns its result.
func another(t *testing.T, name string) (process *exec.Cmd, said string) {
	t.Helper()
	return child(t, nil, claims+"="+name)
}

// contained is another, with a /run of its own in the same network namespace: a container with host networking.
func contained(t *testing.T, name string) (process *exec.Cmd, said string) {
	t.Helper()
	return child(t, &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}, claims+"="+name, ownRun+"=1")
}

func child(t *testing.T, attributes *syscall.SysProcAttr, environment ...string) (process *exec.Cmd, said string) {
	t.Helper()
	process = exec.Command("/proc/self/exe")
	process.Env = append(os.Environ(), environment...)
	process.SysProcAttr = attributes
	input, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		process.Wait()
	})
	said, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return process, strings.TrimSpace(said)
}

func name(t *testing.T) string { return fmt.Sprintf("test/%s/%d", t.Name(), os.Getpid()) }

func TestTakeIsExclusiveUntilClose(t *testing.T) {
	name := name(t)
	ended, end := make(chan struct{}), make(chan struct{})
	go func() { // children inherit open descriptors until they exec
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				exec.Command("true").Run()
			}
		}
	}()
	defer func() {
		close(end)
		<-ended
	}()
	for range 200 {
		first, err := Take(name, "tests")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Take(name, "tests"); !errors.Is(err, ErrTaken) ||
			!strings.Contains(err.Error(), fmt.Sprintf("process %d of this host) tests", os.Getpid())) {
			t.Fatalf("the error is %v, expected the owner of the claim in it", err)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKilledProcessLosesItsClaim(t *testing.T) {
	name := name(t)
	first, said := another(t, name)
	if said != "<nil>" {
		t.Fatal(said)
	}
	if _, said := another(t, name); !strings.Contains(said, fmt.Sprintf("process %d of this host) tests", first.Process.Pid)) {
		t.Fatalf("the second agent's error is %q, expected process %d as the owner", said, first.Process.Pid)
	}
	first.Process.Kill()
	first.Wait()
	mine, err := Take(name, "tests")
	if err != nil {
		t.Fatal(err)
	}
	if err := mine.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTakeExcludesAnAgentWithAnotherRun(t *testing.T) {
	name := name(t)
	first, said := contained(t, name)
	if said != "<nil>" {
		t.Fatal(said)
	}
	if _, err := Take(name, "tests"); !errors.Is(err, ErrTaken) ||
		!strings.Contains(err.Error(), fmt.Sprintf("process %d of this host) tests", first.Process.Pid)) {
		t.Fatalf("%v, expected that process %d has the claim", err, first.Process.Pid)
	}
	if _, said := contained(t, name); !strings.Contains(said, fmt.Sprintf("process %d of this host) tests", first.Process.Pid)) {
		t.Fatalf("the error in another container is %q", said)
	}
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	has := make(chan error)
	go func() {
		one, err := Await(ctx, func(work func() error) error { return work() }, name)
		if err == nil {
			err = one.Close()
		}
		has <- err
	}()
	first.Process.Kill()
	first.Wait()
	if err := <-has; err != nil {
		t.Fatal(err)
	}
}

func TestNobodyCanHoldAClaim(t *testing.T) {
	for what, listens := range map[string]string{"bound": "", "listening": "1"} {
		t.Run(what, func(t *testing.T) {
			name := name(t)
			credential := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			if _, said := child(t, credential, squats+"="+name, squatListens+"="+listens); said != "<nil>" {
				t.Fatal(said)
			}
			mine, err := Take(name, "tests")
			if err != nil {
				t.Fatal(err)
			}
			if _, said := another(t, name); !strings.Contains(said, ErrTaken.Error()) {
				t.Fatalf("the second agent's error is %q", said)
			}
			if err := mine.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestAwaitReturnsWhenTheClaimIsReleased(t *testing.T) {
	name := name(t)
	here := func(work func() error) error { return work() }
	first, err := Take(name, "tests")
	if err != nil {
		t.Fatal(err)
	}
	impatient, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Await(impatient, here, name); !errors.Is(err, context.Canceled) {
		t.Fatalf("claiming without a wait returns %v, expected a failure", err)
	}
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	has := make(chan error)
	go func() {
		second, err := Await(ctx, here, name)
		if err == nil {
			err = second.Close()
		}
		has <- err
	}()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-has; err != nil {
		t.Fatal(err)
	}
}

func TestClaimsAreSeparatePerNetworkNamespace(t *testing.T) {
	name, other := name(t), lab.One(t)
	mine, err := Take(name, "tests")
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	other.Do(func() error {
		theirs, err := Take(name, "tests")
		if err != nil {
			return err
		}
		return theirs.Close()
	})
	everywhere, err := TakeOnHost(name, "tests")
	if err != nil {
		t.Fatal(err)
	}
	defer everywhere.Close()
	if err := other.Try(func() error {
		_, err := TakeOnHost(name, "tests")
		return err
	}); !errors.Is(err, ErrTaken) {
		t.Fatalf("%v, expected the host's claim to be one in all network namespaces", err)
	}
}

func TestClaimsDirectoryWritableByOthersIsRefused(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "claims")
	if _, err := createDirectory(directory); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func() error{
		"others may write there": func() error { return os.Chmod(directory, 0o777) },
		"it is another user's":   func() error { return errors.Join(os.Chmod(directory, 0o700), os.Chown(directory, 65534, -1)) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if _, err := createDirectory(directory); err == nil || !strings.Contains(err.Error(), "expected a directory of user") {
			t.Errorf("where %s: %v, expected a refusal", what, err)
		}
	}
}
