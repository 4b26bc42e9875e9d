// Rounds of synchronous federated learning over TCP, packet by packet, in a star.
//
// Standard input has one case, in words separated by white space:
//
//   connections  new (one for each message) or kept (one for each client)
//   variant      cubic or newreno
//   queue        of every device, packets; drop-tail
//   rate delay   of the server's link: bit/s, one way in s
//   clients      their number, and then for each
//   up down delay     of its own link: bit/s both ways, one way in s
//   rounds       their number, and then for each round and each client
//   down seconds up   bytes to the client, how long it works, bytes to the server
//
// A round begins when the server sends to all clients. A client works when its bytes are there, and
// then sends its reply. The next round begins when the server has all replies. Who sends over a new
// connection calls connect first; kept ones are open before the first round. Standard output has a
// line for each round and client: when the download began and ended, when the upload began and
// ended, s.
//
// What differs from ns-3's defaults is as in transfers.cc.

#include "tcp.h"

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

using namespace ns3;

namespace {

struct Task {
    uint64_t down = 0;
    double seconds = 0.0;
    uint64_t up = 0;
    double begins[2] = {0.0, 0.0};
    double ends[2] = {0.0, 0.0};
};

struct Message {
    uint64_t bytes = 0;
    uint64_t sent = 0;
    uint64_t received = 0;
    Ptr<Socket> source, sink, accepted;
    std::function<void()> complete;
};

std::vector<std::vector<Task>> rounds;
std::vector<Ptr<Node>> clients;
std::vector<Ipv4Address> addresses;
Ptr<Node> server;
Ipv4Address serverAddress;
std::map<uint32_t, Message> messages;
uint32_t serial = 0;
std::size_t waiting = 0;
bool kept = false;

const double REST = 10.0;  // simulated seconds before the first round over kept connections

double Now() { return Simulator::Now().GetSeconds(); }

void Fill(uint32_t id, Ptr<Socket> socket, uint32_t) {
    Message& message = messages[id];
    while (message.sent < message.bytes && socket->GetTxAvailable() > 0) {
        uint64_t most = std::min<uint64_t>(socket->GetTxAvailable(), 1u << 20);
        uint32_t size = std::min<uint64_t>(message.bytes - message.sent, most);
        int taken = socket->Send(Create<Packet>(size));
        if (taken <= 0) return;
        message.sent += taken;
    }
}

void Drain(uint32_t id, Ptr<Socket> socket) {
    Message& message = messages[id];
    const bool before = message.received < message.bytes;
    while (Ptr<Packet> packet = socket->Recv()) {
        if (packet->GetSize() == 0) break;
        message.received += packet->GetSize();
    }
    if (before && message.received >= message.bytes) message.complete();
}

void Established(uint32_t id, Ptr<Socket> socket) { Fill(id, socket, 0); }

void Accepted(uint32_t id, Ptr<Socket> socket, const Address&) {
    messages[id].accepted = socket;
    socket->SetRecvCallback(MakeBoundCallback(&Drain, id));
}

// Over kept connections the messages of client n have two numbers: 2 n down, 2 n + 1 up.

void Listen(uint32_t id, Ptr<Socket> socket) {
    messages[id].source = socket;
    socket->SetSendCallback(MakeBoundCallback(&Fill, id));
    socket->SetRecvCallback(MakeBoundCallback(&Drain, id ^ 1));
}

void AcceptedKept(uint32_t id, Ptr<Socket> socket, const Address&) { Listen(id, socket); }

void Open(uint32_t client) {
    const uint16_t port = 1024 + client;
    Message& down = messages[2 * client];
    down.sink = Socket::CreateSocket(server, TcpSocketFactory::GetTypeId());
    down.sink->Bind(InetSocketAddress(Ipv4Address::GetAny(), port));
    down.sink->Listen();
    down.sink->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                 MakeBoundCallback(&AcceptedKept, 2 * client));
    Ptr<Socket> own = Socket::CreateSocket(clients[client], TcpSocketFactory::GetTypeId());
    Listen(2 * client + 1, own);
    own->Bind();
    own->Connect(InetSocketAddress(serverAddress, port));
}

void SendKept(uint32_t id, uint64_t bytes, std::function<void()> complete) {
    Message& message = messages[id];
    message.bytes = bytes;
    message.sent = message.received = 0;
    message.complete = complete;
    Fill(id, message.source, 0);
}

void Send(Ptr<Node> from, Ptr<Node> to, Ipv4Address address, uint64_t bytes,
          std::function<void()> complete) {
    const uint32_t id = serial++;
    const uint16_t port = 1024 + id % 60000;
    Message& message = messages[id];
    message.bytes = bytes;
    message.complete = complete;
    message.sink = Socket::CreateSocket(to, TcpSocketFactory::GetTypeId());
    message.sink->Bind(InetSocketAddress(Ipv4Address::GetAny(), port));
    message.sink->Listen();
    message.sink->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                    MakeBoundCallback(&Accepted, id));
    message.source = Socket::CreateSocket(from, TcpSocketFactory::GetTypeId());
    message.source->SetConnectCallback(MakeBoundCallback(&Established, id),
                                       MakeNullCallback<void, Ptr<Socket>>());
    message.source->SetSendCallback(MakeBoundCallback(&Fill, id));
    message.source->Bind();
    message.source->Connect(InetSocketAddress(address, port));
}

void Begin(std::size_t round);

void Uploaded(std::size_t round, std::size_t client) {
    rounds[round][client].ends[1] = Now();
    if (--waiting > 0) return;
    if (round + 1 < rounds.size())
        Simulator::ScheduleNow(&Begin, round + 1);
    else
        Simulator::Stop();
}

void Upload(std::size_t round, std::size_t client) {
    Task& task = rounds[round][client];
    task.begins[1] = Now();
    auto uploaded = [round, client] { Uploaded(round, client); };
    if (kept)
        SendKept(2 * client + 1, task.up, uploaded);
    else
        Send(clients[client], server, serverAddress, task.up, uploaded);
}

void Downloaded(std::size_t round, std::size_t client) {
    Task& task = rounds[round][client];
    task.ends[0] = Now();
    Simulator::Schedule(Seconds(task.seconds), &Upload, round, client);
}

void Begin(std::size_t round) {
    waiting = clients.size();
    for (std::size_t client = 0; client < clients.size(); ++client) {
        Task& task = rounds[round][client];
        task.begins[0] = Now();
        auto downloaded = [round, client] { Downloaded(round, client); };
        if (kept)
            SendKept(2 * client, task.down, downloaded);
        else
            Send(server, clients[client], addresses[client], task.down, downloaded);
    }
}

NetDeviceContainer Connect(Ptr<Node> a, Ptr<Node> b, double there, double back, double delay,
                           uint32_t queue) {
    PointToPointHelper link;
    link.SetChannelAttribute("Delay", TimeValue(Seconds(delay)));
    link.SetQueue("ns3::DropTailQueue", "MaxSize",
                  QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, queue)));
    NetDeviceContainer devices = link.Install(a, b);
    const double rates[2] = {there, back};
    for (uint32_t n = 0; n < 2; ++n)
        devices.Get(n)->SetAttribute("DataRate",
                                     DataRateValue(DataRate(static_cast<uint64_t>(rates[n]))));
    return devices;
}

}  // namespace

int main() {
    std::string connections, variant;
    uint32_t queue = 0, count = 0, number = 0;
    double rate = 0.0, delay = 0.0;
    std::cin >> connections >> variant >> queue >> rate >> delay >> count;
    struct Own {
        double up, down, delay;
    };
    std::vector<Own> own(count);
    for (Own& each : own) std::cin >> each.up >> each.down >> each.delay;
    std::cin >> number;
    rounds.assign(number, std::vector<Task>(count));
    for (auto& round : rounds)
        for (Task& task : round) std::cin >> task.down >> task.seconds >> task.up;
    kept = connections == "kept";
    if (!std::cin || count == 0 || number == 0) {
        std::cerr << "the case is incomplete; see the head of rounds.cc for what it has\n";
        return 1;
    }
    RngSeedManager::SetSeed(1);
    Configure(variant);

    server = CreateObject<Node>();
    Ptr<Node> root = CreateObject<Node>();
    InternetStackHelper stack;
    stack.Install(server);
    stack.Install(root);
    Ipv4AddressHelper helper;
    helper.SetBase("10.0.0.0", "255.255.255.252");
    auto assign = [&helper](NetDeviceContainer devices) {
        Ipv4Address first = helper.Assign(devices).GetAddress(0);
        helper.NewNetwork();
        TrafficControlHelper().Uninstall(devices);
        return first;
    };
    serverAddress = assign(Connect(server, root, rate, rate, delay, queue));
    for (const Own& each : own) {
        Ptr<Node> client = CreateObject<Node>();
        stack.Install(client);
        clients.push_back(client);
        addresses.push_back(assign(Connect(client, root, each.up, each.down, each.delay, queue)));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    for (std::size_t client = 0; kept && client < count; ++client) Open(client);
    Simulator::Schedule(Seconds(kept ? REST : 0.0), &Begin, std::size_t{0});
    Simulator::Stop(Seconds(1e6));
    Simulator::Run();
    std::cout.precision(9);
    for (const auto& round : rounds)
        for (const Task& task : round)
            std::cout << task.begins[0] << " " << task.ends[0] << " " << task.begins[1] << " "
                      << task.ends[1] << "\n";
    messages.clear();
    Simulator::Destroy();
    return 0;
}
