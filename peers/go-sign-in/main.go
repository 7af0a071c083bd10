// For each file of settings a line: whether somebody with these comes in, by franz-go.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type settings struct {
	Address     string
	Protocol    string
	Mechanism   string
	User        string
	Secret      string
	Trusted     string
	Certificate string
}

func main() {
	for _, file := range os.Args[1:] {
		var one settings
		text, err := os.ReadFile(file)
		fail(err)
		fail(json.Unmarshal(text, &one))
		if err := signIn(one); err != nil {
			fmt.Printf("out %v\n", err)
		} else {
			fmt.Println("in")
		}
	}
}

func signIn(one settings) error {
	options := []kgo.Opt{kgo.SeedBrokers(one.Address), kgo.RequestRetries(0)}
	if one.Protocol == "SSL" || one.Protocol == "SASL_SSL" {
		options = append(options, kgo.DialTLSConfig(trusting(one)))
	}
	ana := scram.Auth{User: one.User, Pass: one.Secret}
	switch one.Mechanism {
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(ana.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(ana.AsSha512Mechanism()))
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: one.User, Pass: one.Secret}.AsMechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: one.Secret}.AsMechanism()))
	}
	client, err := kgo.NewClient(options...)
	fail(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err = client.Ping(ctx)
	fail(ctx.Err())
	return err
}

func trusting(one settings) *tls.Config {
	text, err := os.ReadFile(one.Trusted)
	fail(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(text)
	if one.Certificate != "" {
		own, err := tls.LoadX509KeyPair(one.Certificate, one.Certificate)
		fail(err)
		config.Certificates = []tls.Certificate{own}
	}
	return config
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
