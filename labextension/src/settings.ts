/**
 * What the person has set in JupyterLab's settings editor.
 */
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { JSONObject } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

import type { Folding } from './cells';

export class Settings {
  /** Take what the registry says, now and whenever it changes. */
  take(settings: ISettingRegistry.ISettings): void {
    const read = (): void => {
      this._all = settings.composite as JSONObject;
      this._changed.emit();
    };
    settings.changed.connect(read);
    read();
  }

  /** As the kernel is told. */
  get all(): JSONObject {
    return this._all;
  }

  get folding(): Folding {
    return (this._all['foldFinished'] as Folding | undefined) ?? 'all';
  }

  get follow(): boolean {
    return (this._all['follow'] as boolean | undefined) ?? true;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  private _all: JSONObject = {};
  private readonly _changed = new Signal<this, void>(this);
}
