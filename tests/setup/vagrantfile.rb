# SPDX-License-Identifier: Apache-2.0
# Runs the Vagrantfile against a Vagrant that only takes notes, and prints them as JSON: what each machine is given.
require "json"

class Notes
  attr_reader :machines

  def initialize
    @machines = {}
  end

  def define(name)
    machine = (@machines[name] = Machine.new)
    yield machine
  end

  # Everything that is said about all machines.
  def method_missing(*)
    yield self if block_given?
    self
  end

  def respond_to_missing?(*)
    true
  end
end

class Machine
  attr_accessor :box, :box_version, :guest, :hostname, :insert_key
  attr_reader :networks, :provisions, :folders

  def initialize
    @networks, @provisions, @folders = [], {}, []
  end

  def vm
    self
  end
  alias ssh vm

  def network(kind, **options)
    @networks << {kind: kind, **options}
  end

  def provision(name, **options)
    @provisions[name] = options
  end

  def synced_folder(_from, to, rsync__exclude: [], **)
    @folders << {to: to, without: rsync__exclude}
  end
end

module Vagrant
  def self.configure(_version)
    notes = Notes.new
    yield notes
    puts JSON.generate(notes.machines.transform_values { |each|
      {networks: each.networks, provisions: each.provisions, folders: each.folders, box: each.box,
       box_version: each.box_version}
    })
  end
end

load ARGV.fetch(0)
