// SPDX-License-Identifier: Apache-2.0

// Package plural writes a count with its noun, singular or plural.
package plural

import "fmt"

// Of formats a count and a noun with a regular plural.
func Of(number int, thing string) string {
	if number == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", number, thing)
}
