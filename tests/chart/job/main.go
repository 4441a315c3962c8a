// The job of the demonstration's application: says twice a second that it works, and with which token, until it is
// told to stop. `leasehold run` starts it when the lock is acquired.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	token := os.Getenv("LEASEHOLD_FENCING_TOKEN")
	fmt.Println("begins with token", token)
	for turn := time.NewTicker(500 * time.Millisecond); ; {
		select {
		case <-turn.C:
			fmt.Println("works with token", token)
		case <-stop:
			fmt.Println("ends with token", token)
			return
		}
	}
}
