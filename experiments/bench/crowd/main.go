// SPDX-License-Identifier: Apache-2.0

// Command crowd runs many agents in one process, each with its own session, certificate, stream and host in memory.
//
//	crowd DIRECTORY     reads lines of NAME TOKEN JOIN WIFI LTE (two addresses) up to an empty one, joins them all, saves
//	                    their certificates there, prints `here` when all are welcome, and runs them until stdin
//	                    ends; then prints one line of JSON: the delays of reports and decisions
//
// A host's active path loses a fifth of its segments in five reports of sixty, one host after the other, so that some
// connections always move.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"bicast/agent/session"
	"bicast/agent/trust"
)

const (
	joinWithin = 30 * time.Second
	joiners    = 4
	spread     = time.Second // of first reports, as with people's phones
)

func main() {
	if len(os.Args) != 2 {
		fail("usage: crowd DIRECTORY < LINES")
	}
	in := bufio.NewScanner(os.Stdin)
	invited := read(in)
	joinAll(invited, os.Args[1])
	ctx, cancel := context.WithCancel(context.Background())
	seen := &tally{welcome: make(chan struct{}, len(invited))}
	var sessions sync.WaitGroup
	for number, one := range invited {
		sessions.Add(1)
		go func() {
			defer sessions.Done()
			select {
			case <-time.After(spread * time.Duration(number) / time.Duration(len(invited))):
			case <-ctx.Done():
			}
			dial := seen.listen(session.Dialer(filepath.Join(os.Args[1], one.name)))
			session.New(dial, newHost(number, one), slog.New(slog.DiscardHandler)).Run(ctx)
		}()
	}
	for range invited {
		<-seen.welcome
	}
	seen.forget()
	fmt.Println("here")
	for in.Scan() { // until stdin ends
	}
	found := seen.summary()
	cancel()
	sessions.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fail(err)
	}
}

type invitation struct{ name, token, join, wifi, lte string }

func read(in *bufio.Scanner) []invitation {
	var found []invitation
	for in.Scan() && in.Text() != "" {
		words := strings.Fields(in.Text())
		if len(words) != 5 {
			fail(fmt.Sprintf("%q, expected NAME TOKEN JOIN WIFI LTE", in.Text()))
		}
		found = append(found, invitation{words[0], words[1], words[2], words[3], words[4]})
	}
	return found
}

func joinAll(invited []invitation, directory string) {
	ctx, cancel := context.WithTimeout(context.Background(), joinWithin*time.Duration(1+len(invited)/100))
	defer cancel()
	waiting := make(chan invitation)
	var parts sync.WaitGroup
	for range joiners {
		parts.Add(1)
		go func() {
			defer parts.Done()
			for one := range waiting {
				if err := join(ctx, one, filepath.Join(directory, one.name)); err != nil {
					fail(fmt.Sprintf("%s cannot join: %v", one.name, err))
				}
			}
		}()
	}
	for _, one := range invited {
		waiting <- one
	}
	close(waiting)
	parts.Wait()
}

func join(ctx context.Context, one invitation, directory string) error {
	token, err := trust.ParseToken(one.token)
	if err != nil {
		return err
	}
	identity, err := trust.Join(ctx, one.join, one.name, token)
	if err != nil {
		return err
	}
	return identity.Save(directory)
}

func fail(reason any) {
	fmt.Fprintln(os.Stderr, "crowd:", reason)
	os.Exit(1)
}
