# SPDX-License-Identifier: Apache-2.0
# The router's configuration as VyOS commands, in scripts for its own shell. Run by itself it prints them:
#
#   ruby setup/machines/vyos.rb            interfaces and routes, then rate and loss
#   WIFI_DOWN_LOSS=5 ruby setup/machines/vyos.rb
require_relative "lab"

module Lab
  # Configuration belongs to the group vyattacfg: a root that commits locks everybody else out. Interfaces are found by
  # MAC because their numbers depend on the provider.
  VYOS_HEAD = <<~'SHELL'.freeze
    #!/bin/vbash
    if [ "$(id -g -n)" != vyattacfg ]; then
        exec sg vyattacfg -c "/bin/vbash $(readlink -f "$0")"
    fi
    source /opt/vyatta/etc/functions/script-template
    port() { grep -lixF "$1" /sys/class/net/eth*/address | cut -d/ -f5; }
    configure
  SHELL
  VYOS_TAIL = <<~'SHELL'.freeze
    commit && save
    result=$?
    exit
    exit $result
  SHELL

  class Vyos
    def initialize(plan)
      @plan = plan
    end

    # Copies come in "from the wrong side", so no source may be judged by where it comes from.
    def network
      ports = @plan.router.flat_map do |port|
        ["name=$(port #{port.mac})",
         "set interfaces ethernet $name address #{port.address}",
         "set interfaces ethernet $name description #{port.network}",
         "set interfaces ethernet $name ip source-validation disable"]
      end
      routes = @plan.routes.map { |subnet, by| "set protocols static route #{subnet} next-hop #{by}" }
      script(ports + routes)
    end

    # VyOS 1.4.0 takes whole percent and whole Mbit/s only.
    def links
      by_network = @plan.router.to_h { |port| [port.network, port] }
      commands = @plan.links("DOWN").flat_map do |link|
        ["name=$(port #{by_network.fetch(link.network).mac})",
         "set qos policy network-emulator #{link.network} bandwidth #{link.mbps}mbit",
         "set qos policy network-emulator #{link.network} loss #{link.loss_percent}",
         "set qos interface $name egress #{link.network}"]
      end
      script(commands)
    end

    private

    def script(commands)
      VYOS_HEAD + commands.join("\n") + "\n" + VYOS_TAIL
    end
  end
end

if $PROGRAM_NAME == __FILE__
  vyos = Lab::Vyos.new(Lab::Plan.new)
  puts vyos.network, vyos.links
end
