package probe

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const keyFileBytes = 1024

// ReadKey reads a file of 64 hexadecimal digits, which nobody but its owner may read.
func ReadKey(path string) (key Key, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return key, fmt.Errorf("the key cannot be read: %w; `(umask 077; openssl rand -hex 32 >FILE)` makes one, for both ends", err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return key, fmt.Errorf("the key cannot be read: %w", err)
	case !info.Mode().IsRegular() || info.Size() > keyFileBytes:
		return key, fmt.Errorf("%s is no file of a key: expected 64 hexadecimal digits", path)
	case info.Mode().Perm()&0o077 != 0:
		return key, fmt.Errorf("%s may be read by others (mode %04o): `chmod 600 %s`, and make another key if they are not trusted",
			path, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(file, keyFileBytes))
	if err != nil {
		return key, fmt.Errorf("the key cannot be read: %w", err)
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != len(key) {
		return key, fmt.Errorf("%s is no key: expected 64 hexadecimal digits, as `openssl rand -hex 32` prints them", path)
	}
	return Key(raw), nil
}
