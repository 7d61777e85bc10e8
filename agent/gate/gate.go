// Package gate is what doors are made of that anybody can knock at, and that are to answer only who should be: without
// more of it than is right (Budget), once for each number (Once), where he says he is (Proof), and also while others send
// again what they recorded of him (Tickets). None of it grows with the number of those who knock.
//
// Time is an argument: some monotonic clock's.
package gate
