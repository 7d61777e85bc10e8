// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"encoding/json"
	"os/exec"
)

const squatter = `
import fcntl, json, os, socket, sys
names, paths = json.loads(sys.argv[1])
held = [socket.socket(socket.AF_UNIX) for _ in names]
for one, name in zip(held, names):
    one.bind("\0" + name)
    one.listen()
files = [os.open(path, os.O_RDONLY) for path in ["/proc/self/ns/net", *paths]]
for file in files:
    fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
`

// Squat runs an unprivileged process that holds abstract Unix sockets with these names, and locks on these files and on
// the namespace's file, until the test ends.
func (h *Host) Squat(names, paths []string) {
	h.t.Helper()
	what, err := json.Marshal([][]string{append([]string{}, names...), append([]string{}, paths...)})
	h.must(err)
	process := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", squatter, string(what))
	input, err := process.StdinPipe()
	h.must(err)
	out, err := process.StdoutPipe()
	h.must(err)
	h.must(h.Try(process.Start))
	h.t.Cleanup(func() {
		input.Close()
		process.Wait()
	})
	_, err = bufio.NewReader(out).ReadString('\n')
	h.must(err)
}
