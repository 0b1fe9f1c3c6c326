/**
 * The line between a page and a kernel in which agents are run: one comm, opened by the page.
 *
 * The comm is spoken by hand and not through JupyterLab's own handler: that one waits for the kernel's answer on the
 * shell channel, which does not come while a cell runs, and a page that is loaded again in the middle of a run has to
 * be heard at once. What is asked before (is there somebody, a subshell) goes over the control channel.
 */
import { type Kernel, KernelMessage } from '@jupyterlab/services';
import { type JSONObject, PromiseDelegate, UUID } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import { type Answer, HELLO, TARGET, type Told, VERSION } from './protocol';

/** `absent`: nobody there who runs agents. `lost`: there was. */
export type LineState = 'absent' | 'opening' | 'open' | 'lost' | 'other version';

/** How long the kernel may take to say whether it has subshells, in milliseconds. */
const PATIENCE = 4000;

/** The kernel has said no, or nothing. */
export class Refused extends Error {}

export class Line implements IDisposable {
  /**
   * @param kernel - The connection; the line watches it until it is disposed of.
   * @param settings - What the kernel is told of the settings, asked whenever the line is opened.
   */
  constructor(
    private readonly kernel: Kernel.IKernelConnection,
    private readonly settings: () => JSONObject
  ) {
    kernel.registerCommTarget(HELLO, this.hear);
    kernel.iopubMessage.connect(this.onMessage, this);
    kernel.connectionStatusChanged.connect(this.onConnection, this);
    kernel.statusChanged.connect(this.onStatus, this);
    if (kernel.connectionStatus === 'connected') {
      void this.look();
    }
  }

  get state(): LineState {
    return this._state;
  }

  /** The kernel's version of the package, where it is known. */
  get version(): string {
    return this._version;
  }

  get stateChanged(): ISignal<this, LineState> {
    return this._stateChanged;
  }

  get told(): ISignal<this, Told> {
    return this._told;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this.forget('lost');
    if (!this.kernel.isDisposed) {
      this.kernel.removeCommTarget(HELLO, this.hear);
    }
    Signal.clearData(this);
  }

  /**
   * Say something, and wait for the answer.
   *
   * @throws Refused, with the kernel's sentence, or where the line is not open.
   */
  ask(what: string, fields: JSONObject): Promise<Answer> {
    if (this._state !== 'open') {
      return Promise.reject(new Refused('The agent cannot be reached.'));
    }
    const number = this.number++;
    const answered = new PromiseDelegate<Answer>();
    this.waiting.set(number, answered);
    this.send('comm_msg', { comm_id: this.id, data: { do: what, number, ...fields } });
    return answered.promise;
  }

  // Finding somebody, and opening.

  private async look(): Promise<void> {
    if (this._state !== 'absent' && this._state !== 'lost') {
      return;
    }
    const found = await this.control('comm_info_request', { target_name: HELLO });
    const comms = (found?.['comms'] ?? {}) as Record<string, { target_name: string }>;
    if (Object.values(comms).some(comm => comm.target_name === HELLO)) {
      await this.open();
    }
  }

  private readonly hear = (): void => {
    void this.open();
  };

  private async open(): Promise<void> {
    if (this._isDisposed || this._state === 'opening' || this._state === 'open') {
      return;
    }
    this.set('opening');
    const id = UUID.uuid4();
    this.id = id;
    const info = await this.control('kernel_info_request', {});
    let subshell: string | null = null;
    if (((info?.['supported_features'] ?? []) as string[]).includes('kernel subshells')) {
      const made = await this.control('create_subshell_request', {});
      subshell = (made?.['subshell_id'] ?? null) as string | null;
    }
    if (this.id === id) {
      this.subshell = subshell;
      const data = { v: VERSION, settings: this.settings() };
      this.send('comm_open', { comm_id: id, target_name: TARGET, data });
    }
  }

  /** Ask over the control channel; null where no answer comes, or the connection has ended. */
  private async control(type: string, content: JSONObject): Promise<JSONObject | null> {
    try {
      const message = KernelMessage.createMessage({
        msgType: type as 'create_subshell_request',
        channel: 'control',
        session: this.kernel.clientId,
        username: this.kernel.username,
        content
      });
      const answered = this.kernel.sendControlMessage(message, true).done;
      const late = new Promise<null>(resolve => setTimeout(resolve, PATIENCE, null));
      const reply = await Promise.race([answered, late]);
      return reply === null ? null : (reply.content as unknown as JSONObject);
    } catch {
      return null;
    }
  }

  private send(type: 'comm_open' | 'comm_msg' | 'comm_close', content: JSONObject): void {
    if (this.kernel.isDisposed || this.kernel.status === 'dead') {
      return;
    }
    const message = KernelMessage.createMessage({
      msgType: type as 'comm_msg',
      channel: 'shell',
      session: this.kernel.clientId,
      username: this.kernel.username,
      subshellId: this.subshell,
      content: content as unknown as KernelMessage.ICommMsgMsg['content']
    });
    this.kernel.sendShellMessage(message, false, true);
  }

  // What the kernel says.

  private onMessage(_: Kernel.IKernelConnection, message: KernelMessage.IIOPubMessage): void {
    const type = message.header.msg_type as string;
    if (type !== 'comm_msg' && type !== 'comm_close') {
      return;
    }
    const content = message.content as { comm_id: string; data: unknown };
    if (content.comm_id !== this.id) {
      return;
    }
    if (type === 'comm_close') {
      this.forget('lost');
      return;
    }
    const data = content.data as Told & Partial<Answer>;
    if (data.hello !== undefined) {
      this._version = data.hello.version;
      this.set(data.hello.v === VERSION ? 'open' : 'other version');
    }
    if (data.re === undefined) {
      this._told.emit(data);
      return;
    }
    const answered = this.waiting.get(data.re);
    this.waiting.delete(data.re);
    if (data.error === undefined) {
      answered?.resolve(data as Answer);
    } else {
      answered?.reject(new Refused(data.error));
    }
  }

  private onConnection(_: Kernel.IKernelConnection, status: Kernel.ConnectionStatus): void {
    if (status === 'connected') {
      if (this._state === 'open') {
        // What was said meanwhile is lost: those who listen ask for what they have missed.
        this._stateChanged.emit('open');
      } else {
        void this.look();
      }
    } else if (status === 'disconnected') {
      this.forget('lost');
    }
  }

  private onStatus(_: Kernel.IKernelConnection, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this.forget('lost');
    }
  }

  private forget(state: LineState): void {
    const was = this._state;
    this.id = '';
    const waiting = [...this.waiting.values()];
    this.waiting.clear();
    for (const answered of waiting) {
      answered.reject(new Refused('The agent cannot be reached any more.'));
    }
    if (was !== 'absent') {
      this.set(state);
    }
  }

  private set(state: LineState): void {
    if (state !== this._state) {
      this._state = state;
      this._stateChanged.emit(state);
    }
  }

  private id = '';
  private subshell: string | null = null;
  private number = 1;
  private readonly waiting = new Map<number, PromiseDelegate<Answer>>();
  private _state: LineState = 'absent';
  private _version = '';
  private _isDisposed = false;
  private readonly _stateChanged = new Signal<this, LineState>(this);
  private readonly _told = new Signal<this, Told>(this);
}
