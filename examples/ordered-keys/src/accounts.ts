// What Redis keeps of each account: its list of movements, its balance, its ledger, and the greatest fencing token.

import { Redis } from "ioredis";

/** A change of an account's balance. Its number counts the movements of its account from 1. */
export interface Movement {
  readonly account: string;
  readonly number: number;
  readonly amount: number;
}

/** Numbers a movement and puts it behind the others of its account. */
const ADD = `
  local number = redis.call('HINCRBY', 'numbers', ARGV[1], 1)
  redis.call('RPUSH', KEYS[1], cjson.encode({ number = number, amount = tonumber(ARGV[2]) }))
  redis.call('SADD', 'waiting', ARGV[1])
  return number`;

/** Shows the token, which shuts out all holders before this one, and looks at the first movement. */
const FIRST = `
  local greatest = tonumber(redis.call('HGET', 'tokens', ARGV[1]) or 0)
  if tonumber(ARGV[2]) < greatest then return redis.error_reply('STALE a later holder has token ' .. greatest) end
  redis.call('HSET', 'tokens', ARGV[1], ARGV[2])
  return redis.call('LINDEX', KEYS[1], 0)`;

/** Checks the token, applies the movement, and removes it: all of it or nothing. */
const APPLY = `
  if redis.call('HGET', 'tokens', ARGV[1]) ~= ARGV[2] then return redis.error_reply('STALE a later holder works') end
  local first = redis.call('LINDEX', KEYS[1], 0)
  if not first then return 0 end
  local movement = cjson.decode(first)
  -- Applied before: the command was sent again after its answer was lost.
  if movement.number ~= tonumber(ARGV[3]) then return 0 end
  local balance = redis.call('HINCRBY', 'balances', ARGV[1], movement.amount)
  redis.call('RPUSH', KEYS[2], cjson.encode({ number = movement.number, balance = balance, token = ARGV[2] }))
  redis.call('LPOP', KEYS[1])
  if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', 'waiting', ARGV[1]) end
  return 1`;

/** Connects to Redis at the Unix socket that `REDIS_SOCKET` names. BullMQ's workers want requests to be tried for ever. */
export function connectRedis(): Redis {
  const path = process.env["REDIS_SOCKET"];
  if (path === undefined) throw new Error("REDIS_SOCKET names no socket; start this by ../components/with redis -- …");
  return new Redis({ path, maxRetriesPerRequest: null });
}

/** The accounts in Redis. */
export class Accounts {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** Adds a movement to its account's list; gives its number. */
  async add(account: string, amount: number): Promise<number> {
    return (await this.#redis.eval(ADD, 1, list(account), account, amount)) as number;
  }

  /** Whether movements wait in the account's list. */
  async hasWaiting(account: string): Promise<boolean> {
    return (await this.#redis.exists(list(account))) === 1;
  }

  /** The accounts whose lists are not empty. */
  async waiting(): Promise<string[]> {
    return await this.#redis.smembers("waiting");
  }

  /**
   * The account's first movement, which stays in the list; `undefined` if there is none. From now on smaller tokens are
   * refused.
   *
   * @throws Error that begins with `STALE` if a later holder was here.
   */
  async first(account: string, token: number): Promise<Movement | undefined> {
    const text = (await this.#redis.eval(FIRST, 1, list(account), account, token)) as string | null;
    if (text === null) return undefined;
    const { number, amount } = JSON.parse(text) as { number: number; amount: number };
    return { account, number, amount };
  }

  /**
   * Applies a movement and removes it from the list.
   *
   * @throws Error that begins with `STALE` if a later holder was here.
   */
  async apply({ account, number }: Movement, token: number): Promise<void> {
    await this.#redis.eval(APPLY, 2, list(account), ledger(account), account, token, number);
  }
}

/** The name of an account's list of movements that wait. */
export function list(account: string): string {
  return `list:${account}`;
}

/** The name of an account's ledger: what was applied. */
export function ledger(account: string): string {
  return `ledger:${account}`;
}
