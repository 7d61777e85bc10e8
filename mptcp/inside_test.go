// SPDX-License-Identifier: Apache-2.0

package mptcp_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"bicast/internal/lab"
)

// Go ends a process with 10,000 threads. A terminal that calls thousands of silent servers must neither end the agent
// nor delay its other work in the namespace.
func TestDialIsBoundedAndDoesNotDelayDo(t *testing.T) {
	const dials, bound = 1100, 1024
	handle := open(t, lab.One(t))
	begun, goOn := make(chan bool, dials), make(chan bool)
	var all sync.WaitGroup
	for range dials {
		all.Add(1)
		go func() {
			defer all.Done()
			handle.Dial(context.Background(), func() error {
				begun <- true
				<-goOn
				return nil
			})
		}()
	}
	for range bound {
		<-begun
	}
	select {
	case <-begun:
		t.Errorf("more than %d have begun at once", bound)
	case <-time.After(100 * time.Millisecond):
	}
	impatient, cancel := context.WithCancel(context.Background())
	cancel()
	if err := handle.Dial(impatient, func() error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("the call without a wait returns %v, expected an error that says so", err)
	}
	done := make(chan error, 1)
	go func() { done <- handle.Do(func() error { return nil }) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the agent's own work waits for silent servers")
	}
	close(goOn)
	all.Wait()
}
