package mptcp_test

import (
	"sync"
	"testing"
	"time"

	"bicast/internal/lab"
)

// A terminal that calls thousands of silent servers had the agent end: Go has no more than 10,000 threads.
func TestWorksInANamespaceThatWaitAreBounded(t *testing.T) {
	const works, bound = 1100, 1024
	handle := open(t, lab.One(t))
	begun, goOn := make(chan bool, works), make(chan bool)
	var all sync.WaitGroup
	for range works {
		all.Add(1)
		go func() {
			defer all.Done()
			handle.Do(func() error {
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
		t.Errorf("more than %d works have begun at once", bound)
	case <-time.After(100 * time.Millisecond):
	}
	close(goOn)
	all.Wait()
}
