// A member of a group that reads one topic and writes another in transactions, with franz-go's
// GroupTransactSession: a rebalance in the middle of a transaction aborts it. Every third
// transaction is aborted on purpose. It ends when the output topic holds as many committed records
// as it was told, and prints how each transaction ended, and then the values.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	if len(os.Args) != 6 {
		fail(fmt.Errorf("arguments: SERVERS INPUT OUTPUT TRANSACTIONAL-ID COUNT"))
	}
	servers, input, output, transactionalID := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	count, err := strconv.Atoi(os.Args[5])
	fail(err)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()

	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.ConsumerGroup("franz-"+input),
		kgo.ConsumeTopics(input),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.TransactionalID(transactionalID),
		kgo.DefaultProduceTopic(output),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(100*time.Millisecond),
	)
	fail(err)
	values := make(chan []string, 1)
	go func() { values <- read(ctx, servers, output, count) }()
	work(ctx, session, values)
	session.Close()
}

// work copies records until the reader has seen all of them.
func work(ctx context.Context, session *kgo.GroupTransactSession, values chan []string) {
	for round := 0; ; round++ {
		select {
		case found := <-values:
			for _, value := range found {
				fmt.Printf("value %s\n", value)
			}
			return
		default:
		}
		polling, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		fetches := session.PollRecords(polling, 50)
		cancel()
		fail(ctx.Err())
		if fetches.NumRecords() == 0 {
			continue
		}
		fail(session.Begin())
		promise := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Key: record.Key, Value: record.Value}, promise.Promise())
		})
		wants := kgo.TransactionEndTry(promise.Err() == nil && round%3 != 0)
		isCommitted, err := session.End(ctx, wants)
		fail(err)
		fmt.Printf("committed %t\n", isCommitted)
	}
}

// read gives the committed values of a topic, once there are so many, in their order.
func read(ctx context.Context, servers, topic string, count int) []string {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	fail(err)
	defer client.Close()
	var values []string
	for len(values) < count && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			values = append(values, string(record.Value))
		})
	}
	fail(ctx.Err())
	sort.Strings(values)
	return values
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
