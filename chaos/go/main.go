// The clients of franz-go under torture, with their own defaults but for how long they wait for an
// answer. What they were told is printed, one operation of a history to a line, until standard input
// ends. A line that begins with an exclamation mark is a failure.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	requestTimeout = 2 * time.Second
	patience       = 60 * time.Second
	// A coordinator that accepts connections and says nothing, as one that is frozen, is asked again
	// and again: franz-go looks for another when it is refused or told so. Who makes a new client after
	// so long finds the next.
	ending  = 10 * time.Second
	leaving = 2 * time.Second
	asking  = 5 * time.Second

	queuedMax      = 200
	sendsPerTurn   = 5
	turn           = 100 * time.Millisecond
	recordsMax     = 6
	inputsMax      = 20
	abortedOfTen   = 1
	clockMonotonic = 1
)

var (
	servers    []string
	stopping   = make(chan struct{})
	partitions = map[string]int{"plain": 3, "left": 2, "right": 1}
	output     sync.Mutex
)

func main() {
	servers = strings.Split(os.Args[1], ",")
	seed, err := strconv.ParseInt(os.Args[2], 10, 64)
	if err != nil {
		panic(err)
	}
	var working sync.WaitGroup
	for number, work := range []func(*rand.Rand){produce, transact, copyAll} {
		working.Add(1)
		go func() {
			defer working.Done()
			work(rand.New(rand.NewSource(seed + int64(number))))
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	close(stopping)
	working.Wait()
}

func isStopping() bool {
	select {
	case <-stopping:
		return true
	default:
		return false
	}
}

// What is told

type operation map[string]any

func say(line string) {
	output.Lock()
	defer output.Unlock()
	fmt.Println(strings.ReplaceAll(line, "\n", " "))
}

func tell(told operation) {
	line, err := json.Marshal(told)
	if err != nil {
		panic(err)
	}
	say(string(line))
}

// now is what the system's monotonic clock says, which all processes share.
func now() float64 {
	var at syscall.Timespec
	syscall.Syscall(
		syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&at)), 0)
	return float64(at.Sec) + float64(at.Nsec)/1e9
}

type sent struct {
	began  float64
	record *kgo.Record
	offset int64
}

func (each *sent) tell(process, transaction string, isStored bool) {
	told := operation{
		"op": "send", "span": []float64{each.began, now()}, "process": process,
		"partition": []any{each.record.Topic, each.record.Partition},
		"value":     string(each.record.Value), "known": "unknown",
	}
	if isStored {
		told["known"], told["offset"] = "ok", each.offset
	}
	if transaction != "" {
		told["transaction"] = transaction
	}
	tell(told)
}

func tellEnd(began float64, process, transaction string, isKnown, isCommit bool) {
	known := "unknown"
	if isKnown {
		known = "ok"
	}
	tell(operation{
		"op": "end", "span": []float64{began, now()}, "process": process,
		"transaction": transaction, "known": known, "is_commit": isCommit,
	})
}

func tellInit(began float64, process, transactionalID string) {
	tell(operation{
		"op": "init", "span": []float64{began, now()}, "process": process,
		"transactional_id": transactionalID,
	})
}

// Without transactions

func options(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(servers...),
		kgo.DialTimeout(requestTimeout),
		kgo.RequestTimeoutOverhead(requestTimeout),
		kgo.ProduceRequestTimeout(requestTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, more...)
}

func pick(random *rand.Rand, topics ...string) *kgo.Record {
	topic := topics[random.Intn(len(topics))]
	return &kgo.Record{Topic: topic, Partition: int32(random.Intn(partitions[topic]))}
}

// produce lets no record be refused: there is always somebody who will take it.
func produce(random *rand.Rand) {
	const process = "franz-idempotent"
	client, err := kgo.NewClient(options()...)
	if err != nil {
		say("! " + err.Error())
		return
	}
	defer client.Close()
	for number := 0; !isStopping(); {
		for count := 0; count < sendsPerTurn && client.BufferedProduceRecords() < queuedMax; count++ {
			record := pick(random, "plain")
			record.Value = []byte(fmt.Sprintf("%s-%d", process, number))
			number++
			each := &sent{began: now(), record: record}
			client.Produce(context.Background(), record, func(stored *kgo.Record, err error) {
				each.offset = stored.Offset
				if err != nil {
					say("! an idempotent send was refused: " + err.Error())
				}
				each.tell(process, "", err == nil)
			})
		}
		time.Sleep(turn)
	}
	within, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := client.Flush(within); err != nil {
		say("! not all was acknowledged at the end: " + err.Error())
	}
}

// In transactions

// whole is what one transaction sends.
type whole struct {
	name    string
	records []*sent
	failure *kgo.FirstErrPromise
}

func (each *whole) send(client *kgo.Client, record *kgo.Record) {
	one := &sent{began: now(), record: record}
	each.records = append(each.records, one)
	promise := each.failure.Promise()
	client.Produce(context.Background(), record, func(stored *kgo.Record, err error) {
		one.offset = stored.Offset
		promise(stored, err)
	})
}

func (each *whole) tell(process string, began float64, isKnown, isCommit bool) {
	for _, one := range each.records {
		one.tell(process, each.name, isKnown && isCommit)
	}
	tellEnd(began, process, each.name, isKnown, isCommit)
}

// begin asks for an epoch, and tells whether there is one. A client that was told of a coordinator
// which is gone by now asks that one for ever where a proxy closes its connections; a new one does not.
func begin(client *kgo.Client, process, transactionalID string) bool {
	began := now()
	within, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	_, _, err := client.ProducerID(within)
	if err == nil {
		tellInit(began, process, transactionalID)
	}
	return err == nil
}

func transact(random *rand.Rand) {
	const name = "franz-transactional"
	for restarts := 0; !isStopping(); restarts++ {
		process := fmt.Sprintf("%s.%d", name, restarts)
		client, err := kgo.NewClient(options(
			kgo.TransactionalID(name), kgo.TransactionTimeout(30*time.Second))...)
		if err != nil {
			say("! " + err.Error())
			return
		}
		isBegun := begin(client, process, name)
		for number := 1; isBegun && !isStopping(); number++ {
			if !transaction(client, random, process, number) {
				break
			}
			time.Sleep(turn)
		}
		client.Close()
	}
}

// transaction tells whether the client can go on.
func transaction(client *kgo.Client, random *rand.Rand, process string, number int) bool {
	if err := client.BeginTransaction(); err != nil {
		return false
	}
	each := &whole{
		name:    fmt.Sprintf("%s-%d", process, number),
		failure: kgo.AbortingFirstErrPromise(client),
	}
	for index := range 1 + random.Intn(recordsMax) {
		record := pick(random, "left", "right")
		record.Value = []byte(fmt.Sprintf("%s/%d", each.name, index))
		each.send(client, record)
	}
	within, cancel := context.WithTimeout(context.Background(), ending)
	defer cancel()
	began := now()
	err := client.Flush(within)
	isCommit := each.failure.Err() == nil && random.Intn(10) >= abortedOfTen
	if err == nil {
		err = client.EndTransaction(within, kgo.TransactionEndTry(isCommit))
	}
	if isCommit && (errors.Is(err, kerr.OperationNotAttempted) ||
		errors.Is(err, kerr.TransactionAbortable)) {
		isCommit = false
		err = client.EndTransaction(within, kgo.TryAbort)
	}
	each.tell(process, began, err == nil, isCommit)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", each.name, err)
	}
	return err == nil
}

// copyAll consumes, transforms and produces: what is written and where it was read to are one.
func copyAll(_ *rand.Rand) {
	const name, group = "franz-copier", "franz-copiers"
	for restarts := 0; !isStopping(); restarts++ {
		process := fmt.Sprintf("%s.%d", name, restarts)
		session, err := kgo.NewGroupTransactSession(options(
			kgo.TransactionalID(name),
			kgo.TransactionTimeout(30*time.Second),
			kgo.ConsumerGroup(group),
			kgo.ConsumeTopics("plain"),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.RequireStableFetchOffsets(),
			kgo.SessionTimeout(10*time.Second),
		)...)
		if err != nil {
			say("! " + err.Error())
			return
		}
		isBegun := begin(session.Client(), process, name)
		for number := 1; isBegun && !isStopping(); {
			polling, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			fetches := session.PollRecords(polling, inputsMax)
			cancel()
			if isLost(fetches) {
				break
			}
			if fetches.NumRecords() == 0 {
				continue
			}
			if !copied(session, fetches, process, group, number) {
				break
			}
			number++
		}
		within, cancel := context.WithTimeout(context.Background(), leaving)
		_ = session.Client().LeaveGroupContext(within)
		cancel()
		session.Close()
	}
}

// isLost tells whether the group could not be joined.
func isLost(fetches kgo.Fetches) bool {
	for _, each := range fetches.Errors() {
		var group *kgo.ErrGroupSession
		if errors.As(each.Err, &group) {
			return true
		}
	}
	return false
}

func copied(
	session *kgo.GroupTransactSession, fetches kgo.Fetches, process, group string, number int,
) bool {
	if err := session.Begin(); err != nil {
		return false
	}
	each := &whole{
		name:    fmt.Sprintf("%s-%d", process, number),
		failure: kgo.AbortingFirstErrPromise(session.Client()),
	}
	fetches.EachPartition(func(partition kgo.FetchTopicPartition) {
		var read []int64
		for _, record := range partition.Records {
			value := fmt.Sprintf("%s>%s", record.Value, each.name)
			each.send(session.Client(), &kgo.Record{Topic: "franz-copies", Value: []byte(value)})
			read = append(read, record.Offset)
		}
		if len(read) > 0 {
			tell(operation{
				"op": "inputs", "transaction": each.name, "group": group,
				"partition": []any{partition.Topic, partition.Partition},
				"offset":    read[len(read)-1] + 1, "read": read,
			})
		}
	})
	within, cancel := context.WithTimeout(context.Background(), ending)
	defer cancel()
	began := now()
	isCommit, err := session.End(within, kgo.TransactionEndTry(each.failure.Err() == nil))
	each.tell(process, began, err == nil, isCommit)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", each.name, err)
	}
	return err == nil
}
