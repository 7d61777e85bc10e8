# SPDX-License-Identifier: Apache-2.0
# The paper's four machines as the Vagrantfile needs them, read from the file that the gateway itself runs on
# (topologies/paper.yaml) and from beyond.yaml. Nothing here repeats an address or a MAC.
require "ipaddr"
require "yaml"

module Lab
  HERE = File.dirname(File.expand_path(__FILE__))
  TREE = File.expand_path("../..", HERE)

  # One network interface. The networks have the names of the gateway's ports, and "lan".
  Port = Struct.new(:network, :mac, :address, :gateway, keyword_init: true) do
    # As both providers take it.
    def bare_mac
      mac.delete(":").upcase
    end

    def subnet
      network = IPAddr.new(address)
      "#{network}/#{network.prefix}"
    end
  end

  # Rate and loss of one direction of an uplink: what section 4.2 of the paper sets, and WIFI_UP_LOSS=10 and the like
  # in the environment change.
  Link = Struct.new(:network, :mbps, :loss_percent, keyword_init: true)

  class Plan
    def initialize(environment = ENV, gateway_file: "#{TREE}/topologies/paper.yaml", beyond_file: "#{HERE}/beyond.yaml")
      @environment = environment
      @site = YAML.load_file(gateway_file).fetch("sites").values.first
      @beyond = YAML.load_file(beyond_file)
    end

    def client
      terminal = @site.fetch("terminals").values.first
      terminal.fetch("addresses").map do |entry|
        subnet = subnet_of(entry.fetch("address"))
        gateway = gateway_in(subnet, entry.fetch("address"))
        Port.new(network: entry.fetch("port"), mac: entry.fetch("mac"), gateway: gateway.split("/").first,
                 address: "#{entry.fetch("address")}/#{gateway.split("/").last}")
      end
    end

    def gateway
      inside = client.map { |port| Port.new(network: port.network, mac: subnet_of(port.address).fetch("mac")) }
      inside + uplinks.map { |uplink| Port.new(network: uplink.fetch("port"), mac: uplink.fetch("mac")) }
    end

    def router
      outside = uplinks.map do |uplink|
        hop = uplink.fetch("next_hops").find { |each| IPAddr.new(each.fetch("address")).ipv4? }
        own = own_address(uplink)
        Port.new(network: uplink.fetch("port"), mac: hop.fetch("mac"), gateway: own.split("/").first,
                 address: "#{hop.fetch("address")}/#{own.split("/").last}")
      end
      outside + [Port.new(network: "lan", **symbols(@beyond.fetch("router")))]
    end

    def server
      Port.new(network: "lan", gateway: router.last.address.split("/").first, **symbols(@beyond.fetch("server")))
    end

    # The machine's port in the network of the controller and its agents.
    def control(machine)
      Port.new(network: "control", **symbols(@beyond.fetch("control").fetch(machine)))
    end

    # Where the router sends what is for the terminals: the subflow subnet of each uplink by that uplink.
    def routes
      @site.fetch("subnets").values.flat_map do |subnet|
        uplink = @site.fetch("uplinks").fetch(subnet.fetch("uplink"))
        own = own_address(uplink).split("/").first
        ipv4(subnet.fetch("gateways")).map { |each| [Port.new(address: each).subnet, own] }
      end
    end

    # direction: "UP" at the gateway, "DOWN" at the router.
    def links(direction)
      wifi, lte = uplinks.map { |uplink| uplink.fetch("port") }
      [
        Link.new(network: wifi, mbps: number("WIFI_MBPS", 100), loss_percent: number("WIFI_#{direction}_LOSS", 0)),
        Link.new(network: lte, mbps: number("LTE_MBPS", 10), loss_percent: number("LTE_#{direction}_LOSS", 1)),
      ]
    end

    private

    def uplinks
      @site.fetch("uplinks").values
    end

    def ipv4(addresses)
      addresses.select { |each| IPAddr.new(each).ipv4? }
    end

    def own_address(uplink)
      ipv4(uplink.fetch("addresses")).first
    end

    def subnet_of(address)
      bare = address.split("/").first
      @site.fetch("subnets").values.find { |subnet| gateway_in(subnet, bare) }
    end

    def gateway_in(subnet, address)
      ipv4(subnet.fetch("gateways")).find { |each| IPAddr.new(each).include?(IPAddr.new(address)) }
    end

    def symbols(hash)
      hash.transform_keys(&:to_sym)
    end

    def number(name, otherwise)
      text = @environment.fetch(name, otherwise.to_s)
      value = Float(text, exception: false)
      raise ArgumentError, "#{name}=#{text}: expected a number that is not negative" if value.nil? || value.negative?

      value == value.to_i ? value.to_i : value
    end
  end
end
