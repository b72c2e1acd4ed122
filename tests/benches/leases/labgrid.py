"""A client of a labgrid coordinator. Makes places, watchers and waiting reservations first.

For each number N on stdin, makes and cancels N reservations, and prints the seconds for making each reservation.
"""

import asyncio
import sys
import time

import grpc
from labgrid.remote.generated import labgrid_coordinator_pb2 as pb
from labgrid.remote.generated import labgrid_coordinator_pb2_grpc as services

# Seconds for making waiting reservations: less than the 60 s after which an unpolled reservation expires.
FILL_FOR_S = 40.0


async def session(channel, name, places):
    stub = services.CoordinatorStub(channel)
    asked = asyncio.Queue()

    async def requests():
        while True:
            yield await asked.get()

    started = pb.ClientInMessage()
    started.startup.version = "bench"
    started.startup.name = name
    asked.put_nowait(started)
    if places:
        subscribe = pb.ClientInMessage()
        subscribe.subscribe.all_places = True
        asked.put_nowait(subscribe)
    sync = pb.ClientInMessage()
    sync.sync.id = 1
    asked.put_nowait(sync)
    # The coordinator may still be starting.
    stream = stub.ClientStream(requests(), wait_for_ready=True)
    async for message in stream:
        if message.HasField("sync"):
            break

    async def read():
        async for _ in stream:
            pass

    return stub, asyncio.create_task(read())


def channel(address, number):
    # Each session needs its own connection.
    return grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1), ("n", number)])


async def reserve(stub, place):
    request = pb.CreateReservationRequest(prio=0.0)
    request.filters["main"].filter["name"] = place
    return (await stub.CreateReservation(request)).reservation.token


async def main(address, places, waiting, watchers):
    stub, _reader = await session(channel(address, 0), "bench/owner", False)
    names = [f"place-{number}" for number in range(places)]
    for name in names:
        await stub.AddPlace(pb.AddPlaceRequest(name=name))
    for name in names:
        await stub.AcquirePlace(pb.AcquirePlaceRequest(placename=name))
    held = [await session(channel(address, number + 1), f"bench/{number}", True) for number in range(watchers)]
    until = time.monotonic() + FILL_FOR_S
    queued = 0
    while queued < waiting and time.monotonic() < until:
        await reserve(stub, names[queued % places])
        queued += 1
    print("ready", queued, len(held), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        took = []
        for number in range(int(line)):
            began = time.monotonic()
            token = await reserve(stub, names[number % places])
            took.append(time.monotonic() - began)
            await stub.CancelReservation(pb.CancelReservationRequest(token=token))
        print(*took, flush=True)


asyncio.run(main(sys.argv[1], *(int(number) for number in sys.argv[2:5])))
