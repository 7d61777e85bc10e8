// SPDX-License-Identifier: Apache-2.0

package internal

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The folders of this module that each folder may import besides itself. Tests may import more.
var mayImport = map[string][]string{
	"internal": {},
	"api":      {},
	"mptcp":    {"internal"},
	"relay":    {"internal"},
	"agent":    {"api", "internal", "mptcp"},
}

// The packages of the agent that use relay/ (server, proxy, divert, onward). The compiler restricts relay/internal itself.
var composesRelay = []string{"agent/command", "agent/host/capability", "agent/intercept", "agent/relayhost"}

// Packages for tests only.
var forTests = []string{"internal/lab", "internal/mtls/mtlstest", "agent/caps/capstest", "agent/internal/controllertest"}

func TestFoldersImportOnlyLowerOnes(t *testing.T) {
	for folder, below := range mayImport {
		walk(t, folder, func(at, imported string) {
			room, _, _ := strings.Cut(imported, "/")
			allowed := room == folder || slices.Contains(below, room) || room == "relay" && slices.Contains(composesRelay, at)
			if !allowed || slices.Contains(forTests, imported) && !slices.Contains(forTests, at) {
				t.Errorf("%s imports %s", at, imported)
			}
		})
	}
}

// walk calls found with each file's folder and each package of this module that the file imports.
func walk(t *testing.T, folder string, found func(at, imported string)) {
	files := 0
	err := filepath.WalkDir(filepath.Join("..", folder), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		files++
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, each := range file.Imports {
			imported, err := strconv.Unquote(each.Path.Value)
			if own, ours := strings.CutPrefix(imported, "bicast/"); err == nil && ours {
				found(strings.TrimPrefix(path.Dir(name), "../"), own)
			}
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Fatalf("%s has %d files in Go: %v", folder, files, err)
	}
}
