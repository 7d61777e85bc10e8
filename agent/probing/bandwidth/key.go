// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"bicast/internal/regularfile"
)

const keyFileBytes = 1024

// ReadKey reads a file of 64 hexadecimal digits that only its owner can read.
func ReadKey(path string) (key Key, err error) {
	text, info, err := regularfile.Read(path, keyFileBytes)
	unfit := (*regularfile.Unfit)(nil)
	switch {
	case errors.As(err, &unfit):
		return key, fmt.Errorf("%s is not a key file, expected 64 hexadecimal digits", path)
	case err != nil:
		return key, fmt.Errorf("cannot read the key: %w; `(umask 077; openssl rand -hex 32 >FILE)` makes one for both ends", err)
	case info.Mode().Perm()&0o077 != 0:
		return key, fmt.Errorf("other users can read %s (mode %04o): run `chmod 600 %s`, and make another key if you do not trust them",
			path, info.Mode().Perm(), path)
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != len(key) {
		return key, fmt.Errorf("%s has no key, expected 64 hexadecimal digits as `openssl rand -hex 32` prints", path)
	}
	return Key(raw), nil
}
