"""Orders become invoices, each exactly once: a listener whose input and output are one transaction.

    python -m examples.billing

starts a broker, puts orders into it and bills them. Against a broker that runs already, for as long
as you like and with a live view:

    semel run examples.billing:app -b 127.0.0.1:9092
"""

import json
from decimal import Decimal

from semel import App, Producer, Record, Transaction
from semel.client.columns.tables import read
from semel.testing import Broker

PRICES = {"apple": Decimal("0.40"), "pear": Decimal("0.55")}
ORDERS = {"ada": ("apple", 3), "bob": ("pear", 2), "eve": ("durian", 1)}

app = App()


@app.listener("orders", group="billing", retry_on=OSError, dead_letters="orders.dead")
@app.transactional
def bill(order: Record, out: Transaction) -> None:
    out.send("invoices", key=order.key, value=invoice(order))


def invoice(order: Record) -> str:
    asked = json.loads(order.value)
    price = PRICES[asked["fruit"]] * asked["count"]
    return f"{asked['count']} x {asked['fruit']}: {price} EUR"


def main(bootstrap_servers: str) -> tuple[dict[str, str], list[str]]:
    """Invoices by customer, and the customers whose orders nobody could bill."""
    with Producer(bootstrap_servers) as producer:
        for customer, (fruit, count) in ORDERS.items():
            producer.send(
                "orders", key=customer, value=json.dumps({"fruit": fruit, "count": count})
            )
    app.run_until_idle(bootstrap_servers)
    invoices = {
        row["key"].decode(): row["value"].decode()
        for row in read("invoices", bootstrap_servers=bootstrap_servers).to_pylist()
    }
    dead = read("orders.dead", bootstrap_servers=bootstrap_servers)
    return invoices, [key.decode() for key in dead["key"].to_pylist()]


if __name__ == "__main__":
    with Broker() as broker:
        billed, unbilled = main(broker.bootstrap_servers)
    for name, text in billed.items():
        print(f"{name}: {text}")
    print(f"laid aside: {', '.join(unbilled)}")
