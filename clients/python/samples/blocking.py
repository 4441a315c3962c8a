import leasehold

with leasehold.Client() as client, client.hold("nightly-report", wait=30) as hold:
    for chapter in range(3):
        hold.check()
        print(f"writing chapter {chapter} with token {hold.fencing_token}")
