// Transfers over TCP, packet by packet, in a star or a tree.
//
// Standard input has one case, in words separated by white space:
//
//   variant      cubic or newreno
//   discipline   drop-tail or fq_codel (ns-3's own in front of the same queue)
//   queue        of every device, packets
//   loss         share of packets lost on the server's link, in the data's direction
//   direction    up (clients to server) or down
//   seed         of the losses, and of FQ-CoDel's hash of flows
//   rate delay   of the server's link: bit/s, one way in s
//   gateways     0 for a star; else each gateway's link follows:
//   rate delay   of all links of gateways, where there are any
//   flows        their number, and then for each
//   start bytes rate delay    s, and of its client's own link
//
// Client n is at gateway n * gateways / flows. Standard output has one line for each flow: when
// its connection was established and when its last byte arrived, s after its start; nan if never.
//
// What differs from ns-3's defaults: segments of 1448 bytes (536), buffers of 64 MiB (128 KiB), so
// that no receiver holds a flow back, and a first timeout of 1 s for SYN (3 s), as in RFC 6298.

#include "tcp.h"

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

using namespace ns3;

namespace {

const double LIMIT = 3600.0;  // simulated seconds after which a flow counts as never complete

struct Transfer {
    double start = 0.0;
    uint64_t bytes = 0;
    double rate = 0.0;
    double delay = 0.0;
    uint64_t sent = 0;
    uint64_t received = 0;
    double established = std::nan("");
    double complete = std::nan("");
};

std::vector<Transfer> transfers;
std::size_t unfinished;

double Elapsed(std::size_t n) { return Simulator::Now().GetSeconds() - transfers[n].start; }

void Fill(std::size_t n, Ptr<Socket> socket, uint32_t) {
    Transfer& transfer = transfers[n];
    while (transfer.sent < transfer.bytes && socket->GetTxAvailable() > 0) {
        uint64_t most = std::min<uint64_t>(socket->GetTxAvailable(), 1u << 20);
        uint32_t size = std::min<uint64_t>(transfer.bytes - transfer.sent, most);
        int taken = socket->Send(Create<Packet>(size));
        if (taken <= 0) return;
        transfer.sent += taken;
    }
}

void Drain(std::size_t n, Ptr<Socket> socket) {
    Transfer& transfer = transfers[n];
    while (Ptr<Packet> packet = socket->Recv()) {
        if (packet->GetSize() == 0) break;
        transfer.received += packet->GetSize();
    }
    if (transfer.received >= transfer.bytes && std::isnan(transfer.complete)) {
        transfer.complete = Elapsed(n);
        if (--unfinished == 0) Simulator::Stop();
    }
}

void Established(std::size_t n, Ptr<Socket> socket) {
    transfers[n].established = Elapsed(n);
    Fill(n, socket, 0);
}

void Accepted(std::size_t n, Ptr<Socket> socket, const Address&) {
    socket->SetRecvCallback(MakeBoundCallback(&Drain, n));
}

void Begin(std::size_t n, Ptr<Node> from, Ptr<Node> to, Ipv4Address address) {
    const uint16_t port = 1024 + n;
    Ptr<Socket> sink = Socket::CreateSocket(to, TcpSocketFactory::GetTypeId());
    sink->Bind(InetSocketAddress(Ipv4Address::GetAny(), port));
    sink->Listen();
    sink->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                            MakeBoundCallback(&Accepted, n));
    Ptr<Socket> source = Socket::CreateSocket(from, TcpSocketFactory::GetTypeId());
    source->SetConnectCallback(MakeBoundCallback(&Established, n),
                               MakeNullCallback<void, Ptr<Socket>>());
    source->SetSendCallback(MakeBoundCallback(&Fill, n));
    source->Bind();
    source->Connect(InetSocketAddress(address, port));
}

class Network {
  public:
    Network(const std::string& discipline, uint32_t queue) : discipline_(discipline), queue_(queue) {
        addresses_.SetBase("10.0.0.0", "255.255.255.252");
    }

    // Connects two nodes; returns the devices and the address of the first.
    std::pair<NetDeviceContainer, Ipv4Address> Connect(Ptr<Node> a, Ptr<Node> b, double rate,
                                                       double delay) {
        PointToPointHelper link;
        link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(rate))));
        link.SetChannelAttribute("Delay", TimeValue(Seconds(delay)));
        link.SetQueue("ns3::DropTailQueue", "MaxSize",
                      QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, queue_)));
        NetDeviceContainer devices = link.Install(a, b);
        Ipv4InterfaceContainer interfaces = addresses_.Assign(devices);
        addresses_.NewNetwork();
        if (discipline_ == "drop-tail") TrafficControlHelper().Uninstall(devices);
        return {devices, interfaces.GetAddress(0)};
    }

  private:
    std::string discipline_;
    uint32_t queue_;
    Ipv4AddressHelper addresses_;
};

}  // namespace

int main() {
    std::string variant, discipline, direction;
    uint32_t queue, seed, gateways, flows;
    double loss, rate, delay, gatewayRate = 0.0, gatewayDelay = 0.0;
    std::cin >> variant >> discipline >> queue >> loss >> direction >> seed >> rate >> delay >>
        gateways;
    if (gateways > 0) std::cin >> gatewayRate >> gatewayDelay;
    std::cin >> flows;
    transfers.resize(flows);
    for (Transfer& each : transfers) std::cin >> each.start >> each.bytes >> each.rate >> each.delay;
    if (!std::cin || flows == 0) {
        std::cerr << "the case is incomplete; see the head of transfers.cc for what it has\n";
        return 1;
    }
    unfinished = flows;
    RngSeedManager::SetRun(seed + 1);  // a stream of its own; those of small seeds are alike
    Config::SetDefault("ns3::FqCoDelQueueDisc::Perturbation", UintegerValue(seed));
    Configure(variant);

    const bool up = direction == "up";
    Ptr<Node> server = CreateObject<Node>(), root = CreateObject<Node>();
    NodeContainer routers(root), clients;
    clients.Create(flows);
    for (uint32_t n = 0; n < gateways; ++n) routers.Add(CreateObject<Node>());
    InternetStackHelper stack;
    stack.Install(server);
    stack.Install(routers);
    stack.Install(clients);

    Network network(discipline, queue);
    auto [devices, serverAddress] = network.Connect(server, root, rate, delay);
    if (loss > 0) {
        Ptr<RateErrorModel> errors = CreateObject<RateErrorModel>();
        errors->SetAttribute("ErrorUnit", EnumValue(RateErrorModel::ERROR_UNIT_PACKET));
        errors->SetAttribute("ErrorRate", DoubleValue(loss));
        devices.Get(up ? 0 : 1)->SetAttribute("ReceiveErrorModel", PointerValue(errors));
    }
    for (uint32_t n = 0; n < gateways; ++n)
        network.Connect(routers.Get(1 + n), root, gatewayRate, gatewayDelay);
    std::vector<Ipv4Address> own;
    for (uint32_t n = 0; n < flows; ++n) {
        Ptr<Node> parent = routers.Get(gateways ? 1 + n * gateways / flows : 0);
        const Transfer& each = transfers[n];
        own.push_back(network.Connect(clients.Get(n), parent, each.rate, each.delay).second);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    for (uint32_t n = 0; n < flows; ++n) {
        Ptr<Node> from = up ? clients.Get(n) : server, to = up ? server : clients.Get(n);
        Simulator::Schedule(Seconds(transfers[n].start), &Begin, std::size_t{n}, from, to,
                            up ? serverAddress : own[n]);
    }
    Simulator::Stop(Seconds(LIMIT));
    Simulator::Run();
    std::cout.precision(9);
    for (const Transfer& each : transfers)
        std::cout << each.established << " " << each.complete << "\n";
    Simulator::Destroy();
    return 0;
}
