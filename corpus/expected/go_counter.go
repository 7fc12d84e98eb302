// Two goroutines on threads of their own add to the same plain counter.
//@ build: O0 O2
//@ full: O2+nopie O2+nodebug
//@ expect: what=counter functions=add_to_counter,add_to_counter
package main

import (
	"runtime"
	"sync"
)

var counter uint64

//go:noinline
func add_to_counter() {
	counter++
}

//go:noinline
func pause() {
	for i := 0; i < 40; i++ {
		runtime.KeepAlive(i)
	}
}

func adder(done *sync.WaitGroup) {
	runtime.LockOSThread()
	for i := 0; i < 400000; i++ {
		add_to_counter()
		pause()
	}
	done.Done()
}

func main() {
	var done sync.WaitGroup
	done.Add(2)
	go adder(&done)
	go adder(&done)
	done.Wait()
}
