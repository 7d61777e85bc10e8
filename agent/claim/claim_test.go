package claim

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestANameIsTakenOnceAndFreeWhenItIsGivenUp(t *testing.T) {
	name := fmt.Sprintf("test/%d", os.Getpid())
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
