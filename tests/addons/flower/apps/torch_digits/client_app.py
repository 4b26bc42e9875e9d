"""The clients: each trains the network on its own digits."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from torch_digits.task import Net, load_data
from torch_digits.task import test as test_fn
from torch_digits.task import train as train_fn

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train the model on local data."""
    net = Net()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    batches, _ = load_data(
        context.node_config["partition-id"], context.node_config["num-partitions"]
    )
    loss = train_fn(net, batches, epochs=2, lr=msg.content["config"]["lr"])
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(batches.dataset)})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    """Evaluate the model on local data."""
    net = Net()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    _, batches = load_data(
        context.node_config["partition-id"], context.node_config["num-partitions"]
    )
    loss, accuracy = test_fn(net, batches)
    metrics = MetricRecord(
        {"eval_loss": loss, "eval_accuracy": accuracy, "num-examples": len(batches.dataset)}
    )
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
