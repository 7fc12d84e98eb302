// A counter under sync.Mutex. The mutex and the scheduler use plain moves that the runtime's
// own source calls atomic.
// Nothing shows what is atomic in Go, so that words of the runtime, such as the stack limit that
// it changes to interrupt a goroutine, are possibly atomic.
//@ allow: possibly-atomic
//@ build: O2
//@ full: O0 O2+nopie O2+nodebug
//@ focus: guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
package main

import (
	"runtime"
	"sync"
)

var twin string

var lock sync.Mutex
var balance uint64

//go:noinline
func guarded_bump() {
	balance++
}

//go:noinline
func pause() {
	for i := 0; i < 40; i++ {
		runtime.KeepAlive(i)
	}
}

func worker(done *sync.WaitGroup) {
	runtime.LockOSThread()
	for i := 0; i < 100000; i++ {
		if twin == "" {
			lock.Lock()
		}
		guarded_bump()
		if twin == "" {
			lock.Unlock()
		}
		pause()
	}
	done.Done()
}

func main() {
	var done sync.WaitGroup
	done.Add(2)
	go worker(&done)
	go worker(&done)
	done.Wait()
}
