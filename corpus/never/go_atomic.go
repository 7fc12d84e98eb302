// A flag by sync/atomic hands a plain word over: the load is a plain move in the binary.
// Nothing shows what is atomic in Go, so that words of the runtime, such as the stack limit that
// it changes to interrupt a goroutine, are possibly atomic.
//@ allow: possibly-atomic
//@ build: O2
//@ full: O0 O2+nodebug
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
package main

import (
	"runtime"
	"sync"
	"sync/atomic"
)

var twin string

var turn uint32
var balance uint64

//go:noinline
func is_turn_of(who uint32) bool {
	return atomic.LoadUint32(&turn) == who
}

//go:noinline
func hand_to(who uint32) {
	atomic.StoreUint32(&turn, who)
}

//go:noinline
func guarded_bump() {
	balance++
}

func worker(me uint32, done *sync.WaitGroup) {
	runtime.LockOSThread()
	for i := 0; i < 4000; i++ {
		for twin == "" && !is_turn_of(me) {
			runtime.Gosched()
		}
		guarded_bump()
		if twin == "" {
			hand_to(1 - me)
		}
	}
	done.Done()
}

func main() {
	var done sync.WaitGroup
	done.Add(2)
	go worker(0, &done)
	go worker(1, &done)
	done.Wait()
}
