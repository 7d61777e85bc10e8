package claim

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestANameIsTakenOnceAndFreeWhenItIsGivenUp(t *testing.T) {
	name := fmt.Sprintf("test/%d", os.Getpid())
	ended, end := make(chan struct{}), make(chan struct{})
	go func() { // children have copies of what is open, until they are other programs
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
		if _, err := Take(name, "tests"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d of this host) tests", os.Getpid())) {
			t.Fatalf("%v, expected to be told who has it", err)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
